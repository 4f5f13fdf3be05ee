// A line in ns-3, to compare the speed of perhop's simulator with: a host, five routers and a host,
// six links of 10 Gb/s and 1 ms, and a datagram of 1,500 B every 12 us, which is 1 Gb/s.
//
//   line --to=10
//
// prints one JSON object: goodput in bit/s, packets sent and lost, packet-hops, and the CPU seconds
// of the simulation.

#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include "work.h"

using namespace ns3;

int
main(int argc, char* argv[])
{
    double to = 10;
    CommandLine command;
    command.AddValue("to", "when it ends, in seconds", to);
    command.Parse(argc, argv);
    double began = perhop::CpuSeconds();

    NodeContainer nodes(7);
    InternetStackHelper().InstallAll();
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    link.SetChannelAttribute("Delay", StringValue("1ms"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
    // Without flow control a device gets no queue discipline above its own queue.
    link.DisableFlowControl();
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4Address destination;
    for (uint32_t hop = 0; hop + 1 < nodes.GetN(); hop++)
    {
        auto devices = link.Install(nodes.Get(hop), nodes.Get(hop + 1));
        destination = addresses.Assign(devices).GetAddress(1);
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    UdpServerHelper server(5001);
    auto receiver = server.Install(nodes.Get(6)).Get(0)->GetObject<UdpServer>();
    UdpClientHelper client(destination, 5001);
    client.SetAttribute("MaxPackets", UintegerValue(UINT32_MAX));
    client.SetAttribute("Interval", TimeValue(MicroSeconds(12)));
    client.SetAttribute("PacketSize", UintegerValue(1472));
    auto sender = client.Install(nodes.Get(0)).Get(0)->GetObject<UdpClient>();

    Simulator::Stop(Seconds(to));
    Simulator::Run();
    double cpu = perhop::CpuSeconds() - began;
    std::cout << "{\"goodput_bps\": " << 8.0 * 1472 * receiver->GetReceived() / to
              << ", \"sent\": " << sender->GetTotalTx() / 1472
              << ", \"dropped\": " << receiver->GetLost() << ", \"hops\": " << perhop::PacketHops()
              << ", \"cpu_s\": " << cpu << "}\n";
    Simulator::Destroy();
}
