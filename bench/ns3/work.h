// What a simulation in ns-3 took: counted alike for every program of this folder.

#ifndef PERHOP_WORK_H
#define PERHOP_WORK_H

#include <ctime>

#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

namespace perhop
{

/// Packets that all point-to-point links have taken so far.
inline uint64_t
PacketHops()
{
    uint64_t hops = 0;
    for (auto node = ns3::NodeList::Begin(); node != ns3::NodeList::End(); ++node)
    {
        for (uint32_t index = 0; index < (*node)->GetNDevices(); index++)
        {
            auto device = ns3::DynamicCast<ns3::PointToPointNetDevice>((*node)->GetDevice(index));
            if (device)
            {
                auto queue = device->GetQueue();
                hops += queue->GetTotalReceivedPackets() - queue->GetNPackets();
            }
        }
    }
    return hops;
}

/// CPU time of this process, in seconds.
inline double
CpuSeconds()
{
    return double(std::clock()) / CLOCKS_PER_SEC;
}

} // namespace perhop

#endif
