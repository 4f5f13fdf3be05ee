#!/bin/sh
# Settings of Linux with which these scripts pass, beside its defaults.
sysctl -q net.ipv4.tcp_congestion_control=cubic net.ipv4.tcp_slow_start_after_idle=0
sysctl -q net.ipv4.tcp_early_retrans=4 net.ipv4.tcp_recovery=1
sysctl -q net.ipv4.tcp_tso_win_divisor=3 net.ipv4.tcp_timestamps=1 net.ipv4.tcp_ecn=0
sysctl -q net.ipv4.tcp_rmem="4096 540000 15728640" net.ipv4.tcp_wmem="4096 262144 4194304"
tc qdisc add dev tun0 root pfifo
