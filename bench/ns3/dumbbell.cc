// A dumbbell in ns-3, to compare perhop's simulator with: flows of TCP from hosts behind one router
// to hosts behind another, over a bottleneck with a drop-tail queue. Every setting in which the two
// simulators' defaults differ is set: segment size, buffers, minimum timeout, delayed
// acknowledgements, no traffic control above the device's queue.
//
//   dumbbell --cc=ns3::TcpLinuxReno --rate=100Mbps --delay=10ms --queue=100 --flows=4 --from=10 --to=40
//
// prints one JSON object: goodput in bit/s, packets enqueued and dropped at the bottleneck between
// the two times, the mean of what waited there in packets, packet-hops of all links from the start,
// and the CPU seconds of the simulation. With
// --red-min and --red-max the bottleneck has RED, with --aqm=CoDel or --aqm=Pie that, with settings
// as in RFC 8289 and RFC 8033. --ecn has it mark, and TCP answer (RFC 3168).

#include <functional>
#include <iostream>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include "cubic.h"
#include "work.h"

using namespace ns3;

int
main(int argc, char* argv[])
{
    std::string cc = "ns3::TcpLinuxReno";
    std::string rate = "100Mbps";
    std::string delay = "10ms";
    uint32_t queue = 100;
    uint32_t flows = 4;
    double from = 10;
    double to = 40;
    double redMin = 0;
    double redMax = 0;
    std::string aqm;
    bool ecn = false;
    CommandLine command;
    command.AddValue("cc", "congestion control", cc);
    command.AddValue("rate", "rate of the bottleneck", rate);
    command.AddValue("delay", "delay of the bottleneck, one way", delay);
    command.AddValue("queue", "packets that its queue holds", queue);
    command.AddValue("flows", "how many flows", flows);
    command.AddValue("from", "when counting begins, in seconds", from);
    command.AddValue("to", "when it ends", to);
    command.AddValue("red-min", "RED's lower threshold in packets; 0 for no RED", redMin);
    command.AddValue("red-max", "RED's upper threshold in packets", redMax);
    command.AddValue("aqm", "CoDel or Pie at the bottleneck", aqm);
    command.AddValue("ecn", "whether packets are marked there instead of dropped", ecn);
    command.Parse(argc, argv);
    double began = perhop::CpuSeconds();
    if (redMin > 0)
    {
        aqm = "Red";
    }

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(cc));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn ? "On" : "Off"));
    Config::SetDefault("ns3::CoDelQueueDisc::UseEcn", BooleanValue(ecn));
    Config::SetDefault("ns3::PieQueueDisc::UseEcn", BooleanValue(ecn));
    // RFC 8033's MAX_BURST and section 5.4; ns-3's are a tenth of it, and off. With ECN its sum of
    // probabilities is never cleared.
    Config::SetDefault("ns3::PieQueueDisc::MaxBurstAllowance", TimeValue(MilliSeconds(150)));
    Config::SetDefault("ns3::PieQueueDisc::UseDerandomization", BooleanValue(!ecn));

    NodeContainer routers(2);
    NodeContainer senders(flows);
    NodeContainer receivers(flows);
    InternetStackHelper().InstallAll();

    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", StringValue(rate));
    bottleneck.SetChannelAttribute("Delay", StringValue(delay));
    bottleneck.SetQueue("ns3::DropTailQueue",
                        "MaxSize",
                        QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)));
    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", StringValue("1ms"));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));

    // Without flow control a device gets no queue discipline above its own queue, which then drops
    // by itself, as a router's does.
    if (aqm.empty())
    {
        bottleneck.DisableFlowControl();
    }
    access.DisableFlowControl();

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    auto join = [&](PointToPointHelper& link, Ptr<Node> a, Ptr<Node> b) {
        auto devices = link.Install(a, b);
        auto interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        return std::make_pair(devices, interfaces);
    };
    if (!aqm.empty())
    {
        // The discipline above a device that takes one packet at a time.
        bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    }
    auto middle = join(bottleneck, routers.Get(0), routers.Get(1));
    Ptr<QueueDisc> discipline;
    TrafficControlHelper control;
    if (!aqm.empty())
    {
        control.Uninstall(middle.first);
    }
    if (aqm == "Red")
    {
        control.SetRootQueueDisc("ns3::RedQueueDisc",
                                 "MaxSize",
                                 QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)),
                                 "MinTh", DoubleValue(redMin),
                                 "MaxTh", DoubleValue(redMax),
                                 "LInterm", DoubleValue(10),
                                 "QW", DoubleValue(0.002),
                                 "Gentle", BooleanValue(true),
                                 // Gaps of 1 to 1/p, as in the paper, and not of 1/p to 2/p.
                                 "Wait", BooleanValue(false),
                                 "MeanPktSize", UintegerValue(1502),
                                 "LinkBandwidth", StringValue(rate),
                                 "LinkDelay", StringValue(delay));
    }
    else if (!aqm.empty())
    {
        control.SetRootQueueDisc("ns3::" + aqm + "QueueDisc",
                                 "MaxSize",
                                 QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)));
    }
    if (!aqm.empty())
    {
        discipline = control.Install(middle.first.Get(0)).Get(0);
    }

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t flow = 0; flow < flows; flow++)
    {
        join(access, senders.Get(flow), routers.Get(0));
        auto there = join(access, routers.Get(1), receivers.Get(flow)).second;
        InetSocketAddress address(there.GetAddress(1), 5001);
        PacketSinkHelper sink("ns3::TcpSocketFactory", address);
        sinks.push_back(sink.Install(receivers.Get(flow)).Get(0)->GetObject<PacketSink>());
        BulkSendHelper source("ns3::TcpSocketFactory", address);
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(1448));
        source.Install(senders.Get(flow)).Start(MilliSeconds(10 * flow));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    auto device = DynamicCast<PointToPointNetDevice>(middle.first.Get(0));
    auto fifo = device->GetQueue();
    uint64_t bytes = 0;
    uint64_t received = 0;
    uint64_t dropped = 0;
    uint64_t marked = 0;
    auto count = [&](int sign) {
        uint64_t delivered = 0;
        for (const auto& sink : sinks)
        {
            delivered += sink->GetTotalRx();
        }
        bytes += sign * delivered;
        received += sign * uint64_t(fifo->GetTotalReceivedPackets());
        dropped += sign * uint64_t(fifo->GetTotalDroppedPackets());
        if (discipline)
        {
            dropped += sign * uint64_t(discipline->GetStats().nTotalDroppedPackets);
            marked += sign * uint64_t(discipline->GetStats().nTotalMarkedPackets);
        }
    };
    // What waits, every 10 ms; what the device holds below a discipline is not its.
    double waiting = 0;
    uint64_t samples = 0;
    std::function<void()> sample = [&] {
        waiting += discipline ? discipline->GetNPackets() : fifo->GetNPackets();
        samples++;
        Simulator::Schedule(MilliSeconds(10), sample);
    };
    Simulator::Schedule(Seconds(from), sample);
    Simulator::Schedule(Seconds(from), [&] { count(-1); });
    Simulator::Schedule(Seconds(to), [&] { count(1); });
    Simulator::Stop(Seconds(to));
    Simulator::Run();
    double cpu = perhop::CpuSeconds() - began;
    std::cout << "{\"goodput_bps\": " << 8.0 * bytes / (to - from) << ", \"sent\": " << received
              << ", \"dropped\": " << dropped << ", \"marked\": " << marked
              << ", \"queue\": " << waiting / samples << ", \"hops\": " << perhop::PacketHops()
              << ", \"cpu_s\": " << cpu << "}\n";
    Simulator::Destroy();
}
