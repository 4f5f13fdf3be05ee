//! Tables of Linux's sender: timers are in ticks of 4 ms, and each expires in the tick after.

use super::*;

fn reno() -> SenderConfig {
    SenderConfig { prr: true, decrease_from_window: true, ..rack() }
}

/// Without selective acknowledgements.
fn newreno() -> SenderConfig {
    SenderConfig { loss_detection: LossDetection::Duplicates, ..reno() }
}

fn linux_cubic() -> SenderConfig {
    let config = CubicConfig { hystart: HyStartKind::None, reno_friendly: true, linux: true };
    SenderConfig { congestion: Congestion::cubic(config), ..reno() }
}

/// RFC 9937 in whole segments (tcp_cwnd_reduction): 28 segments become 14; of two delivered, one is
/// sent. Segments 34 to 36, sent during the recovery, are lost, too, by time.
#[test]
fn a_loss_halves_the_window_in_proportion_to_what_arrives() {
    check(&[(
        SenderConfig { initial_window: 20, ..reno() },
        "
0 syn         | SYN                  | 20/inf | 1024
0 write max   |                      | 20/inf | 1024
20 open       | 0 to 19              | 20/inf | 68
40 ack 2      | 20 to 23             | 22/inf | 88
40 ack 3      | 24 25                | 23/inf | 88
40 ack 6      | 26 to 31             | 26/inf | 88
41 ack 7 8-9  | 32 to 35             | 28/inf | 52
41 ack 7 8-10 | 36                   | 28/inf | 52
41 ack 7 8-11 | 7r                   | 27/14  | 52
41 ack 7 8-12 |                      | 26/14  | 268
41 ack 7 8-14 | 37                   | 25/14  | 268
41 ack 7 8-16 | 38                   | 24/14  | 268
41 ack 7 8-20 | 39 40                | 22/14  | 268
60 ack 7 8-22 | 41                   | 21/14  | 288
60 ack 7 8-26 | 42 43                | 19/14  | 288
60 ack 7 8-32 | 44                   | 14/14  | 288
61 ack 34     | 34r 35r 36r 45 to 47 | 14/14  | 288
61 ack 36     | 48 49                | 14/14  | 288
62 ack 38     | 50 51                | 14/14  | 108
62 ack 50     | 52 to 64             | 15/14  | 108
82 ack 52     | 65 66                | 15/14  | 128
",
    )]);
}

/// 717 / 1024 of 27 or 28 segments are 19; Linux counts whole segments.
#[test]
fn cubic_keeps_seven_tenths_and_returns_to_its_maximum() {
    check(&[(
        SenderConfig { initial_window: 20, ..linux_cubic() },
        "
0 syn         | SYN        | 20/inf | 1024
0 write max   |            | 20/inf | 1024
20 open       | 0 to 19    | 20/inf | 68
40 ack 2      | 20 to 23   | 22/inf | 88
41 ack 7 8-9  | 24 to 35   | 28/inf | 52
41 ack 7 8-10 | 36         | 28/inf | 52
41 ack 7 8-11 | 7r         | 27/19  | 52
41 ack 7 8-20 | 37         | 19/19  | 268
60 ack 24     | 38 to 42   | 19/19  | 288
61 ack 26     | 43 44      | 19/19  | 288
300 ack 30    | 45 to 48   | 19/19  | 608
1300 ack 40   | 49 to 58   | 19/19  | 1664
2300 ack 50   | 59 to 74   | 25/19  | 3232
3300 ack 55   | 75 to 79   | 25/19  | 4608
4300 ack 65   | 80 to 90   | 26/19  | 6208
5300 ack 75   | 91 to 101  | 27/19  | 7936
6300 ack 90   | 102 to 119 | 30/19  | 9216
7300 ack 99   | 120 to 133 | 35/19  | 10752
",
    )]);
}

/// tcp_rack_reo_timeout: 5 ms and the least time of a timer, 2 ms, are two ticks of 4 ms, and the
/// timer expires in the tick after.
#[test]
fn a_late_segment_has_a_quarter_of_the_round_trip() {
    check(&[(
        reno(),
        "
0 syn              | SYN      | 10/inf | 1024
0 write max        |          | 10/inf | 1024
20 open            | 0 to 9   | 10/inf | 68
40 ack 0 1-2       | 10       | 10/inf | 52
timer              | 0r       | 10/5   | 276
60 ack 3 10-11     | 3r 4r 5r | 3/5    | 284
61 ack 4 10-11     | 6r 7r    | 4/5    | 284
62 ack 4 5-7 10-11 | 8r 9r    | 4/5    | 284
63 ack 4 5-8 10-11 | 11       | 4/5    | 284
timer              | 4r       | 1/5    | 736
84 ack 4 0-1 5-10  |          | 1/5    | 736
85 ack 12          | 12 to 14 | 3/5    | 132
86 ack 12 13-14    | 15       | 3/5    | 92
86 ack 12 13-18    |          | 3/5    | 92
timer              | 12r      | 3/2    | 316
timer              | 12r      | 1/2    | 768
",
    )]);
}

/// A probe after two round trips and 2 ms (tcp_schedule_loss_probe); timeouts of 220 ms, doubled
/// each time, in units of the wheel: 55, 110, 220, 440, 880 and 1760 ticks. The pause before the
/// last write halves the window to its initial size.
#[test]
fn a_lost_tail_is_probed_and_then_timed_out() {
    check(&[(
        reno(),
        "
0 syn             | SYN      | 10/inf | 1024
0 write 10000     |          | 10/inf | 1024
20 open           | 0 to 9   | 10/inf | 68
40 ack 2          |          | 12/inf | 88
timer             | 9r       | 12/inf | 312
timer             | 2r       | 1/6    | 768
timer             | 2r       | 1/6    | 1664
timer             | 2r       | 1/6    | 3456
timer             | 2r       | 1/6    | 7168
timer             | 2r       | 1/6    | 14336
8000 ack 4        |          | 14/inf | 8080
8020 ack 5        |          | 15/inf | 10240
8040 ack 10       |          | 20/inf | -
8100 write 3000   | 10 to 12 | 20/inf | 10240
9000 ack 13       |          | 20/inf | -
20000 write 20000 | 13 to 22 | 10/inf | 22016
",
    )]);
}

/// RFC 5682: the first segment is acknowledged, new data is sent, and then an original arrives.
#[test]
fn a_spurious_timeout_is_found_by_new_data() {
    check(&[(
        SenderConfig { initial_window: 10, ..reno() },
        "
0 syn       | SYN      | 10/inf | 1024
0 write max |          | 10/inf | 1024
20 open     | 0 to 9   | 10/inf | 68
timer       | 10       | 10/inf | 292
timer       | 0r       | 1/5    | 736
300 ack 1   | 11 12    | 2/5    | 768
301 ack 3   | 13 14    | 12/inf | 368
302 ack 5   | 15 to 18 | 14/inf | 472
303 ack 11  | 19 to 30 | 20/inf | 520
",
    )]);
}

/// RFC 5682: what is SACKed is new data only, so that what was sent before is lost.
#[test]
fn new_data_that_overtakes_shows_a_real_timeout() {
    check(&[(
        SenderConfig { initial_window: 10, ..reno() },
        "
0 syn           | SYN         | 10/inf | 1024
0 write max     |             | 10/inf | 1024
20 open         | 0 to 9      | 10/inf | 68
timer           | 10          | 10/inf | 292
timer           | 0r          | 1/5    | 736
320 ack 1       | 11 12       | 2/5    | 768
340 ack 1 11-12 | 1r          | 2/5    | 564
340 ack 1 11-13 | 2r          | 2/5    | 564
360 ack 3 11-13 | 3r 4r 5r 6r | 4/5    | 584
361 ack 5 11-13 | 7r 8r 9r    | 5/5    | 584
362 ack 11      | 13 to 18    | 6/5    | 584
",
    )]);
}

/// RFC 3708 (tcp_try_undo_dsack), and a loss after it, for which reordering is waited for.
#[test]
fn a_reported_duplicate_gives_the_window_back() {
    check(&[(
        SenderConfig { initial_window: 20, ..reno() },
        "
0 syn          | SYN      | 20/inf | 1024
0 write max    |          | 20/inf | 1024
20 open        | 0 to 19  | 20/inf | 68
40 ack 0 1-2   | 20       | 20/inf | 52
40 ack 0 1-3   | 21       | 20/inf | 52
40 ack 0 1-4   | 0r       | 19/10  | 52
41 ack 6       | 22       | 17/10  | 244
61 ack 7 0-1   | 23 to 28 | 22/inf | 112
62 ack 9 10-11 | 29 to 34 | 25/inf | 72
62 ack 9 10-14 | 9r 35    | 23/12  | 72
63 ack 20      | 36 to 38 | 19/12  | 272
",
    )]);
}

/// RFC 3522 (tcp_try_undo_partial), and a real loss after it.
#[test]
fn an_echo_of_the_first_transmission_gives_the_window_back() {
    check(&[(
        SenderConfig { timestamps: true, initial_window: 20, ..reno() },
        "
0 syn                   | SYN      | 20/inf | 1024
0 write max             |          | 20/inf | 1024
20 open                 | 0 to 19  | 20/inf | 68
40 ack 0 1-4 echo=20    | 0r 20    | 18/10  | 264
41 ack 5 echo=20        | 21 to 26 | 22/inf | 88
42 ack 6 8-12 echo=20   | 27 to 36 | 27/inf | 52
43 ack 9 echo=20        | 37 to 40 | 29/inf | 248
44 ack 12 echo=20       |          | 29/inf | 96
45 ack 14 20-21 echo=40 | 41 to 46 | 32/inf | 52
45 ack 14 20-24 echo=40 | 14r 15r  | 25/16  | 52
66 ack 30 echo=45       | 47 to 52 | 23/16  | 76
",
    )]);
}

/// RFC 3168 (tcp_enter_cwr): a loss in the same round trip reduces it no further.
#[test]
fn marks_reduce_the_window_once_a_round_trip() {
    check(&[(
        SenderConfig { ecn: EcnMode::Classic, initial_window: 20, ..reno() },
        "
0 syn         | SYN      | 20/inf | 1024
0 write max   |          | 20/inf | 1024
20 open       | 0 to 19  | 20/inf | 68
40 ack 2 ece  | 20c      | 19/10  | 88
40 ack 4 ece  | 21       | 18/10  | 88
40 ack 6      | 22       | 17/10  | 88
40 ack 8 9-10 | 23 24    | 16/10  | 88
40 ack 8 9-12 | 8r       | 14/10  | 264
40 ack 14     | 25       | 12/10  | 264
40 ack 20     | 26 to 29 | 10/10  | 88
60 ack 24     | 30 to 34 | 11/10  | 108
60 ack 26     | 35 36    | 11/10  | 108
61 ack 28     | 37 38    | 11/10  | 108
62 ack 30 ece | 39c      | 10/5   | 108
",
    )]);
}

/// RFC 6582: a retransmission for each partial acknowledgement. Duplicates at the point of recovery
/// begin no other one.
#[test]
fn recovery_without_sack() {
    check(&[(
        SenderConfig { initial_window: 20, ..newreno() },
        "
0 syn       | SYN          | 20/inf | 1024
0 write max |              | 20/inf | 1024
20 open     | 0 to 19      | 20/inf | 244
40 ack 2    | 20 to 23     | 22/inf | 264
41 ack 2    | 24           | 22/inf | 264
41 ack 2    | 25           | 22/inf | 264
41 ack 2    | 2r           | 21/11  | 264
41 ack 2    |              | 20/11  | 264
41 ack 2    | 26           | 20/11  | 264
60 ack 5    |              | 18/11  | 284
61 ack 5    | 5r           | 18/11  | 284
62 ack 20   | 20r 27 to 30 | 11/11  | 284
63 ack 22   | 22r 31 32    | 11/11  | 284
80 ack 24   | 24r 33 34    | 11/11  | 304
81 ack 26   | 35 36        | 11/11  | 304
82 ack 26   |              | 11/11  | 304
83 ack 27   | 37           | 11/11  | 308
84 ack 27   | 38           | 11/11  | 308
84 ack 27   | 39           | 11/11  | 308
84 ack 27   | 27r          | 10/5   | 312
84 ack 27   |              | 9/5    | 312
",
    )]);
}

/// F-RTO with duplicates (RFC 5682, section 2), and more duplicates than segments.
#[test]
fn timeouts_without_sack() {
    check(&[(
        SenderConfig { initial_window: 6, ..newreno() },
        "
0 syn         | SYN     | 6/inf | 1024
0 write max   |         | 6/inf | 1024
20 open       | 0 to 5  | 6/inf | 244
timer         | 0r      | 1/3   | 704
300 ack 1     | 6 7     | 2/3   | 768
301 ack 1     | 1r      | 2/3   | 768
301 ack 3     | 3r      | 3/3   | 768
302 ack 5     | 5r      | 3/3   | 768
303 ack 8     | 8 to 11 | 4/3   | 768
304 ack 8     | 12      | 4/3   | 768
304 ack 8     | 13      | 4/3   | 768
304 ack 8     | 8r      | 3/2   | 768
325 ack end-0 | 14 15   | 2/2   | 768
timer         | 14r     | 1/2   | 1664
",
    )]);
}

/// tcp_process_tlp_ack: the first probe was needed, if more than it is acknowledged; the second is
/// reported as a duplicate, so that it was not.
#[test]
fn a_probe_that_repairs_a_loss_reduces_the_window() {
    check(&[(
        SenderConfig { initial_window: 4, ..reno() },
        "
0 syn                | SYN     | 4/inf | 1024
0 write 3000         |         | 4/inf | 1024
20 open              | 0 to 2  | 4/inf | 68
timer                | 2r      | 4/inf | 292
90 ack 3             |         | 7/inf | -
200 write 3000       | 3 to 5  | 7/inf | 248
220 ack 5            |         | 3/3   | 444
timer                | 5r      | 3/3   | 668
800 ack 6            |         | 3/3   | -
900 write 6000       | 6 to 8  | 3/3   | 948
920 ack 9            | 9 to 11 | 3/2   | 968
940 ack end-0        |         | 4/2   | -
950 write 2000       | 12 13   | 4/2   | 996
timer                | 13r     | 4/2   | 1220
3000 ack end-0 13-14 |         | 4/2   | -
4000 write 1000      | 14      | 4/3   | 4224
timer                | 14r     | 4/3   | 4448
",
    )]);
}

/// Four timeouts of a second before they double (tcp_syn_linear_timeouts); 3 s without a sample,
/// and one segment, if the SYN was sent more than twice.
#[test]
fn a_lost_syn_leaves_a_window_of_one() {
    check(&[
        (
            reno(),
            "
0 syn       | SYN  | 10/inf | 1024
0 write max |      | 10/inf | 1024
timer       | SYNr | 1/5    | 2048
timer       | SYNr | 1/5    | 3072
timer       | SYNr | 1/5    | 4096
timer       | SYNr | 1/5    | 5120
timer       | SYNr | 1/5    | 7136
timer       | SYNr | 1/5    | 11264
8000 open   | 0    | 1/inf  | 9024
8020 ack 1  | 1 2  | 2/inf  | 8068
timer       | 3    | 2/inf  | 8292
",
        ),
        (
            reno(),
            "
0 syn        | SYN    | 10/inf | 1024
0 write 4000 |        | 10/inf | 1024
timer        | SYNr   | 1/5    | 2048
1100 open    | 0 to 3 | 10/inf | 2112
timer        | 3r     | 10/inf | 5120
",
        ),
    ]);
}

/// tcp_timeout_mark_lost.
#[test]
fn what_was_sent_just_before_a_timeout_is_not_lost() {
    check(&[(
        SenderConfig { initial_window: 6, ..reno() },
        "
0 syn          | SYN    | 6/inf  | 1024
0 write 5000   |        | 6/inf  | 1024
20 open        | 0 to 4 | 6/inf  | 68
timer          | 4r     | 6/inf  | 292
230 write 3000 | 5      | 6/inf  | 244
timer          |        | 6/inf  | 252
310 ack 1      | 6 7    | 7/inf  | 380
311 ack 2 6-7  |        | 9/inf  | 528
312 ack 5      |        | 12/inf | 484
340 ack 8      |        | 6/6    | -
",
    )]);
}

/// tcp_is_cwnd_limited: up to twice what was in flight in slow start.
#[test]
fn unused_windows_do_not_grow() {
    check(&[(
        SenderConfig { initial_window: 10, ..reno() },
        "
0 syn                  | SYN          | 10/inf | 1024
0 write 4000           |              | 10/inf | 1024
20 open                | 0 to 3       | 10/inf | 68
40 ack 4               |              | 10/inf | -
41 write 6000          | 4 to 9       | 10/inf | 88
61 ack 10              |              | 16/inf | -
62 write 12000         | 10 to 21     | 16/inf | 108
82 ack 12              |              | 18/inf | 128
83 ack 22 window=4000  |              | 28/inf | -
84 write 9000          | 22 to 25     | 28/inf | 132
104 ack 26 window=2500 | 26 27        | 28/inf | 152
105 close              |              | 28/inf | 152
124 ack 28 window=9000 | 28 to 30 31f | 28/inf | 172
144 ack 31             |              | 28/inf | 372
",
    )]);
}

/// A late segment ends the count of three. A reported duplicate widens the time by a quarter
/// (tcp_rack_update_reo_wnd). Blocks that are not data in flight have no effect.
#[test]
fn reordering_that_was_seen_is_waited_for() {
    let base = SenderConfig { initial_window: 12, ..reno() };
    check(&[
        (
            base.clone(),
            "
0 syn            | SYN      | 12/inf | 1024
0 write max      |          | 12/inf | 1024
20 open          | 0 to 11  | 12/inf | 68
40 ack 0 1-2     | 12       | 12/inf | 52
41 ack 2         | 13 14    | 13/inf | 88
60 ack 5 6-9     | 15 to 26 | 19/inf | 72
timer            | 5r       | 19/9   | 300
70 ack 5 5-6 6-9 |          | 19/9   | 300
90 ack 14 15-18  | 27 to 30 | 14/9   | 100
timer            | 14r      | 14/9   | 328
112 ack 22 14-15 |          | 9/9    | 340
130 ack 24 25-28 | 31 to 35 | 9/9    | 144
timer            | 24r      | 9/9    | 380
160 ack end-0    | 36 to 45 | 10/9   | 228
161 ack end-3    | 46 to 52 | 10/9   | 220
",
        ),
        (
            base,
            "
0 syn             | SYN      | 12/inf | 1024
0 write max       |          | 12/inf | 1024
20 open           | 0 to 11  | 12/inf | 68
40 ack 0 3-5      | 12 13    | 12/inf | 52
40 ack 0 1-2 3-5  | 14 15    | 13/inf | 52
41 ack 0 1-6      | 16 to 19 | 15/inf | 52
60 ack 0 1-9      | 20 to 25 | 18/inf | 72
61 ack 0 1-2 0-1  |          | 18/inf | 72
62 ack 12 10-12   | 26 to 33 | 22/inf | 120
63 ack 14 7-7 9-8 | 34 to 37 | 24/inf | 116
64 ack 13 15-16   | 38       | 24/inf | 76
65 ack 99         |          | 24/inf | 76
66 ack 15         | 39 40    | 25/inf | 272
",
        ),
    ]);
}

/// bictcp_cwnd_event.
#[test]
fn cubic_does_not_grow_in_pauses() {
    check(&[(
        SenderConfig { initial_window: 20, ..linux_cubic() },
        "
0 syn             | SYN         | 20/inf | 1024
0 write 40000     |             | 20/inf | 1024
20 open           | 0 to 19     | 20/inf | 68
40 ack 2 3-20     | 2r 20 to 32 | 14/14  | 264
60 ack 21         | 33 34       | 14/14  | 108
62 ack end-0      | 35 to 39    | 15/14  | 108
63 ack end-0      |             | 15/14  | -
1000 write 90000  | 40 to 54    | 15/14  | 1044
1020 ack end-3    | 55 to 66    | 15/14  | 1064
1040 ack end-0    | 67 to 81    | 15/14  | 1088
timer             | 82          | 15/14  | 1316
timer             | 67r         | 1/10   | 1792
2000 ack end-9    | 83 to 88    | 15/14  | 2048
2020 ack end-2    | 89 to 102   | 16/14  | 2336
2021 ack end-0    | 103 to 118  | 16/14  | 2304
2041 ack end-0    | 119 to 129  | 17/14  | 2272
2600 ack end-0    |             | 17/14  | -
19000 write 20000 | 130 to 146  | 17/14  | 19360
19020 ack end-0   | 147 to 149  | 18/14  | 19328
19040 ack end-0   |             | 18/14  | -
",
    )]);
}

/// tcp_tso_should_defer.
#[test]
fn small_shares_of_the_window_wait() {
    check(&[(
        SenderConfig { initial_window: 20, tso_divisor: 3, ..reno() },
        "
0 syn                  | SYN         | 20/inf | 1024
0 write max            |             | 20/inf | 1024
20 open                | 0 to 19     | 20/inf | 68
40 ack 0 1-20          | 0r 20 to 28 | 10/10  | 264
60 ack 20              | 29          | 10/10  | 108
80 ack 24              | 30 to 33    | 10/10  | 132
80.5 ack 25            | 34          | 10/10  | 136
81 ack 26              | 35          | 10/10  | 140
82 ack 28              | 36 37       | 10/10  | 144
99 ack 29              | 38 39       | 11/10  | 168
100 ack 30             | 40          | 11/10  | 176
100.2 ack 31           | 41          | 11/10  | 172
100.4 ack 32           | 42          | 11/10  | 168
100.6 ack 33           | 43          | 11/10  | 168
120 ack 35 window=4000 |             | 11/10  | 188
121 ack 40 window=9000 | 44 to 48    | 12/10  | 192
",
    )]);
}
