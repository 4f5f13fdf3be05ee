// CUBIC by RFC 9438 for ns-3: windows with fractions, and the Reno-friendly region.
//
// ns-3 3.37's own TcpCubic has no such region, and counts whole segments: compare.py says what that
// does to loss.

#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "ns3/internet-module.h"

namespace perhop
{

class Cubic : public ns3::TcpCongestionOps
{
  public:
    static ns3::TypeId GetTypeId()
    {
        static ns3::TypeId id = ns3::TypeId("perhop::Cubic")
                                    .SetParent<ns3::TcpCongestionOps>()
                                    .AddConstructor<Cubic>();
        return id;
    }

    std::string GetName() const override
    {
        return "Cubic";
    }

    ns3::Ptr<ns3::TcpCongestionOps> Fork() override
    {
        return ns3::CopyObject<Cubic>(this);
    }

    void PktsAcked(ns3::Ptr<ns3::TcpSocketState>, uint32_t, const ns3::Time& rtt) override
    {
        double seconds = rtt.GetSeconds();
        m_rtt = m_rtt == 0 ? seconds : m_rtt + (seconds - m_rtt) / 8;
    }

    // An acknowledgement of `segments`; ns-3 does not call this in recovery.
    void IncreaseWindow(ns3::Ptr<ns3::TcpSocketState> tcb, uint32_t segments) override
    {
        if (tcb->m_cWnd < tcb->m_ssThresh)
        {
            tcb->m_cWnd += std::min(segments, 2U) * tcb->m_segmentSize;
            return;
        }
        // ns-3 keeps whole bytes; a fraction is lost only where recovery has set the window.
        if (static_cast<uint32_t>(m_window * tcb->m_segmentSize) != tcb->m_cWnd)
        {
            m_window = double(tcb->m_cWnd) / tcb->m_segmentSize;
        }
        double now = ns3::Simulator::Now().GetSeconds();
        if (m_began < 0)
        {
            m_began = now;
            m_maximum = std::max(m_maximum, m_window);
            m_plateauAfter = std::cbrt((m_maximum - m_window) / C);
            m_reno = m_window;
        }
        m_reno += (m_reno < m_prior ? ALPHA : 1) * segments / m_window;
        if (At(now - m_began) < m_reno)
        {
            m_window = std::max(m_window, m_reno);
        }
        else
        {
            double target = std::clamp(At(now - m_began + m_rtt), m_window, 1.5 * m_window);
            m_window += (target - m_window) / m_window * segments;
        }
        tcb->m_cWnd = static_cast<uint32_t>(m_window * tcb->m_segmentSize);
    }

    // A loss: what the window is to become (sections 4.6 and 4.7).
    uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> tcb, uint32_t) override
    {
        double window = double(tcb->m_cWnd) / tcb->m_segmentSize;
        m_maximum = window < m_maximum ? window * (1 + BETA) / 2 : window;
        m_prior = window;
        m_began = -1;
        return std::max(static_cast<uint32_t>(tcb->m_cWnd * BETA), 2 * tcb->m_segmentSize);
    }

    void CongestionStateSet(ns3::Ptr<ns3::TcpSocketState>,
                            const ns3::TcpSocketState::TcpCongState_t state) override
    {
        if (state == ns3::TcpSocketState::CA_LOSS)
        {
            // After a timeout, the plateau is where slow start ends (section 4.8).
            m_maximum = 0;
            m_began = -1;
        }
    }

  private:
    static constexpr double BETA = 0.7;
    static constexpr double C = 0.4;
    static constexpr double ALPHA = 3 * (1 - BETA) / (1 + BETA);

    // The cubic's window so many seconds after this congestion avoidance began (equation 1).
    double At(double seconds) const
    {
        return C * std::pow(seconds - m_plateauAfter, 3) + m_maximum;
    }

    // All in segments and seconds.
    double m_window = 0;
    double m_maximum = 0;
    double m_prior = 0;
    double m_reno = 0;
    double m_plateauAfter = 0;
    double m_began = -1;
    double m_rtt = 0;
};

NS_OBJECT_ENSURE_REGISTERED(Cubic);

} // namespace perhop
