//! Tables of the sender that follows the RFCs.

use super::*;

fn sack() -> SenderConfig {
    SenderConfig { rto_rule: RtoRule::Rfc6298, initial_window: 20, ..config() }
}

fn newreno() -> SenderConfig {
    SenderConfig { loss_detection: LossDetection::Duplicates, ..sack() }
}

fn by_time() -> SenderConfig {
    SenderConfig { loss_detection: LossDetection::Rack, ..sack() }
}

/// RFC 3465: two segments at most for an acknowledgement in slow start. RFC 6675: half of what was
/// in flight, and the pipe; RFC 9937 in its place; without RFC 3042; and with other limits.
#[test]
fn growth_and_recovery_with_sack() {
    check(&[
        (
            sack(),
            "
0 syn         | SYN      | 20/inf    | 1000
0 write max   |          | 20/inf    | 1000
20 open       | 0 to 19  | 20/inf    | 220
40 ack 2      | 20 to 23 | 22/inf    | 240
40 ack 3      | 24 25    | 23/inf    | 240
41 ack 8      | 26 to 32 | 25/inf    | 241
41 ack 8 9-10 | 33       | 25/inf    | 241
41 ack 8 9-11 | 34       | 25/inf    | 241
41 ack 8 9-12 | 8r       | 12.5/12.5 | 241
41 ack 8 9-14 |          | 12.5/12.5 | 241
41 ack 8 9-20 |          | 12.5/12.5 | 241
60 ack 8 9-27 | 35 to 37 | 12.5/12.5 | 260
61 ack 28     | 38 39    | 12.5/12.5 | 261
62 ack 30     | 40 41    | 12.5/12.5 | 262
63 ack 42     | 42 to 54 | 13.5/12.5 | 263
",
        ),
        (
            SenderConfig { prr: true, ..sack() },
            "
0 syn           | SYN      | 20/inf    | 1000
0 write max     |          | 20/inf    | 1000
20 open         | 0 to 19  | 20/inf    | 220
40 ack 2        | 20 to 23 | 22/inf    | 240
41 ack 2 3-4    | 24       | 22/inf    | 240
41 ack 2 3-5    | 25       | 22/inf    | 240
41 ack 2 3-6    | 2r       | 20.5/11   | 241
41 ack 2 3-7    |          | 20/11     | 241
41 ack 2 3-9    | 26       | 19/11     | 241
41 ack 2 3-20   | 27 to 29 | 11/11     | 241
60 ack 10 12-20 | 30       | 11/11     | 260
61 ack 10 12-22 | 31 32    | 11/11     | 260
62 ack 24       | 33 34    | 11/11     | 262
63 ack 26       | 35 36    | 11.182/11 | 263
",
        ),
        (
            SenderConfig { limited_transmit: false, ..sack() },
            "
0 syn         | SYN      | 20/inf  | 1000
0 write max   |          | 20/inf  | 1000
20 open       | 0 to 19  | 20/inf  | 220
40 ack 0 1-2  |          | 20/inf  | 220
40 ack 0 1-3  |          | 20/inf  | 220
40 ack 0 1-4  | 0r       | 10/10   | 240
40 ack 0 1-14 | 20 to 22 | 10/10   | 240
41 ack 0 1-18 | 23 to 26 | 10/10   | 241
60 ack 20     | 27 to 29 | 10.3/10 | 260
",
        ),
        (
            SenderConfig { window: 20_000, initial_window: 10, ..sack() },
            "
0 syn                    | SYN          | 10/inf | 1000
0 write 9000             |              | 10/inf | 1000
20 open                  | 0 to 8       | 10/inf | 220
40 ack 4                 |              | 12/inf | 240
40 ack 5 6-9             | 5r           | 2/2    | 240
41 write 30000           | 9            | 2/2    | 240
60 ack 9                 | 10           | 2.5/2  | 260
61 ack end-0 window=6000 | 11 to 13     | 3.5/2  | 261
62 ack end-0             | 14 to 17     | 4.5/2  | 262
63 ack end-1             | 18 to 21     | 5.25/2 | 263
64 ack end-1 window=3500 | 22 23        | 6.05/2 | 264
64 close                 |              | 6.05/2 | 264
65 ack end-0 window=2500 | 24 25        | 6.55/2 | 265
66 ack end-0             | 26 to 31     | 6.55/2 | 266
67 ack end-0             | 32 to 38 39f | 7.55/2 | 267
68 ack end-0             |              | 7.55/2 | -
",
        ),
    ]);
}

/// RFC 6582, with and without RFC 3042; and timeouts with and without RFC 5682.
#[test]
fn growth_and_recovery_without_sack() {
    check(&[
        (
            newreno(),
            "
0 syn       | SYN          | 20/inf | 1000
0 write max |              | 20/inf | 1000
20 open     | 0 to 19      | 20/inf | 220
40 ack 2    | 20 to 23     | 22/inf | 240
41 ack 2    | 24           | 22/inf | 240
41 ack 2    | 25           | 22/inf | 240
41 ack 2    | 2r           | 11/11  | 241
41 ack 2    |              | 11/11  | 241
42 ack 2    |              | 11/11  | 241
60 ack 5    | 5r           | 11/11  | 260
61 ack 5    |              | 11/11  | 260
61 ack 8    | 8r           | 11/11  | 261
62 ack 24   | 24r 26 to 34 | 11/11  | 262
63 ack 26   | 35 36        | 11/11  | 263
",
        ),
        (
            SenderConfig { limited_transmit: false, ..newreno() },
            "
0 syn       | SYN      | 20/inf | 1000
0 write max |          | 20/inf | 1000
20 open     | 0 to 19  | 20/inf | 220
40 ack 0    |          | 20/inf | 220
40 ack 0    |          | 20/inf | 220
40 ack 0    | 0r       | 10/10  | 240
40 ack 0    |          | 10/10  | 240
41 ack 0    |          | 10/10  | 240
60 ack 9    | 9r       | 10/10  | 260
61 ack 20   | 20 to 29 | 10/10  | 261
",
        ),
        (
            SenderConfig { initial_window: 6, ..newreno() },
            "
0 syn       | SYN     | 6/inf  | 1000
0 write max |         | 6/inf  | 1000
20 open     | 0 to 5  | 6/inf  | 220
timer       | 0r      | 1/3    | 620
timer       | 0r      | 1/3    | 1420
700 ack 1   | 6 7     | 2/3    | 1500
701 ack 1   | 1r      | 2/3    | 1501
702 ack 3   | 3r 4r   | 4/3    | 1502
720 ack 8   | 8 to 12 | 5.25/3 | 1520
",
        ),
        (
            SenderConfig { initial_window: 6, frto: false, ..newreno() },
            "
0 syn       | SYN        | 6/inf  | 1000
0 write max |            | 6/inf  | 1000
20 open     | 0 to 5     | 6/inf  | 220
timer       | 0r         | 1/3    | 620
400 ack 1   | 1r 2r      | 2/3    | 800
401 ack 3   | 3r 4r 5r 6 | 4/3    | 801
402 ack 6   | 7 to 9     | 4.75/3 | 802
",
        ),
    ]);
}

/// RFC 6298, section 5: doubled up to 120 s, until a segment that was sent once is acknowledged.
/// RFC 5682: a spurious timeout and a real one. A lost SYN.
#[test]
fn timeouts_back_off_until_a_sample() {
    check(&[
        (
            SenderConfig { initial_window: 4, ..sack() },
            "
0 syn              | SYN    | 4/inf | 1000
0 write 4000       |        | 4/inf | 1000
20 open            | 0 to 3 | 4/inf | 220
40 ack 2           |        | 6/inf | 240
timer              | 2r     | 1/2   | 640
timer              | 2r     | 1/2   | 1440
timer              | 2r     | 1/2   | 3040
timer              | 2r     | 1/2   | 6240
timer              | 2r     | 1/2   | 12640
timer              | 2r     | 1/2   | 25440
timer              | 2r     | 1/2   | 51040
timer              | 2r     | 1/2   | 102240
timer              | 2r     | 1/2   | 204640
timer              | 2r     | 1/2   | 324640
200000 ack 3       | 3r     | 2/2   | 320000
200020 ack 4       |        | 2/2   | -
200100 write 1000  | 4      | 2/2   | 320100
200120 ack 5       |        | 2/2   | -
200500 write 20000 | 5 6    | 2/2   | 200700
",
        ),
        (
            SenderConfig { initial_window: 8, ..sack() },
            "
0 syn         | SYN      | 8/inf  | 1000
0 write max   |          | 8/inf  | 1000
20 open       | 0 to 7   | 8/inf  | 220
timer         | 0r       | 1/4    | 620
350 ack 1     | 8 9      | 2/4    | 750
351 ack 3     | 10 to 12 | 10/inf | 750.875
352 ack 5 6-8 | 13 to 18 | 12/inf | 973.891
353 ack 12    | 19 to 25 | 14/inf | 1112.654
",
        ),
        (
            SenderConfig { initial_window: 8, ..sack() },
            "
0 syn          | SYN         | 8/inf  | 1000
0 write max    |             | 8/inf  | 1000
20 open        | 0 to 7      | 8/inf  | 220
timer          | 0r          | 1/4    | 620
350 ack 1      | 8 9         | 2/4    | 750
351 ack 1 8-9  | 1r          | 2/4    | 551
352 ack 1 8-10 | 2r          | 2/4    | 552
372 ack 3 8-10 | 3r 4r 5r 6r | 4/4    | 572
373 ack 10     | 10 to 14    | 5.25/4 | 573
",
        ),
        (
            SenderConfig { initial_window: 8, rto_rule: RtoRule::Linux, undo: false, ..sack() },
            "
0 syn          | SYN     | 8/inf | 1000
0 write max    |         | 8/inf | 1000
timer          | SYNr    | 1/inf | 3000
timer          | SYNr    | 1/inf | 7000
4000 open      | 0       | 1/inf | 7000
4030 ack 1     | 1 2     | 2/inf | 4260
timer          | 1r      | 1/2   | 4720
timer          | 1r      | 1/2   | 5640
9000 ack 2     | 3 4     | 2/2   | 9920
9001 ack end-1 | 5 6     | 3/2   | 14634.625
9002 ack end-0 | 7 to 10 | 4/2   | 14404.703
",
        ),
    ]);
}

/// RFC 8985: the reordering window, a probe of one segment, of the last one, and of new data.
#[test]
fn losses_are_detected_by_time() {
    check(&[
        (
            by_time(),
            "
0 syn         | SYN         | 20/inf | 1000
0 write max   |             | 20/inf | 1000
20 open       | 0 to 19     | 20/inf | 60
40 ack 0 1-2  | 20          | 20/inf | 45
timer         | 0r          | 10/10  | 245
60 ack 3      |             | 10/10  | 260
61 ack 3 4-5  |             | 10/10  | 260
62 ack 3 4-6  |             | 10/10  | 260
63 ack 3 4-7  |             | 10/10  | 260
64 ack 3 4-9  |             | 10/10  | 260
84 ack 3 4-20 | 3r 21 to 28 | 10/10  | 284
90 ack 20     | 29          | 10/10  | 290
",
        ),
        (
            SenderConfig { prr: true, initial_window: 6, ..by_time() },
            "
0 syn          | SYN      | 6/inf       | 1000
0 write 6000   |          | 6/inf       | 1000
20 open        | 0 to 5   | 6/inf       | 60
timer          | 5r       | 6/inf       | 260
timer          | 0r       | 1/3         | 660
330 ack 1      | 1r 2r    | 2/3         | 730
350 ack 3      | 3r 4r 5r | 4/3         | 750
351 ack 6      |          | 4/3         | -
400 write 9000 | 6 to 9   | 4/3         | 800
420 ack 7 8-9  | 10 11    | 4.25/3      | 425
425 ack 7 8-10 | 12       | 4.25/3      | 430
timer          | 7r       | 2.125/2.125 | 630
440 ack end-1  | 13       | 2.125/2.125 | 640
441 ack end-0  | 14       | 3.125/2.125 | 641
442 ack end-0  |          | 3.125/2.125 | -
",
        ),
        (
            SenderConfig { initial_window: 4, ..by_time() },
            "
0 syn          | SYN    | 4/inf | 1000
0 write 3000   |        | 4/inf | 1000
20 open        | 0 to 2 | 4/inf | 60
timer          | 2r     | 4/inf | 260
80 ack 3       |        | 6/inf | -
100 write 3000 | 3 to 5 | 6/inf | 300
120 ack 5      |        | 2/2   | 320
timer          | 5r     | 2/2   | 520
440 ack 6 5-6  |        | 2/2   | -
500 write 2000 | 6 7    | 2/2   | 700
520 ack 7      |        | 2/2   | 720
timer          | 7r     | 2/2   | 920
840 ack 8      |        | 2/2   | -
900 write 1000 | 8      | 2/2   | 1100
",
        ),
        (
            SenderConfig { timestamps: true, initial_window: 12, ..by_time() },
            "
0 syn                  | SYN      | 12/inf  | 1000
0 write max            |          | 12/inf  | 1000
20 open                | 0 to 11  | 12/inf  | 60
40 ack 2 3-4 echo=20   | 12 to 16 | 14/inf  | 45
timer                  | 2r       | 7/7     | 245
47 ack 3 4-6 echo=20   | 17 to 20 | 15/inf  | 247
48 ack 7 echo=20       | 21 to 23 | 17/inf  | 91.531
49 ack 9 10-12 echo=20 | 24 to 29 | 19/inf  | 54
50 ack 9 10-16 echo=40 | 9r       | 9.5/9.5 | 250
51 ack 10 9-10 echo=47 | 30 to 35 | 20/inf  | 251
",
        ),
    ]);
}

/// RFC 3168 at once and in proportion; RFC 3522 in recovery and after a timeout; RFC 9438; and
/// pacing at twice the window per round trip.
#[test]
fn marks_and_spurious_losses() {
    check(&[
        (
            SenderConfig { ecn: EcnMode::Classic, ..sack() },
            "
0 syn         | SYN          | 20/inf    | 1000
0 write max   |              | 20/inf    | 1000
20 open       | 0 to 19      | 20/inf    | 220
40 ack 2 ece  |              | 10/10     | 240
40 ack 4 ece  |              | 10/10     | 240
41 ack 20     | 20c 21 to 30 | 11.6/10   | 241
60 ack 24     | 31 to 34     | 11.964/10 | 260
61 ack 30 ece |              | 5.5/5.5   | 261
",
        ),
        (
            SenderConfig { ecn: EcnMode::Classic, prr: true, ..sack() },
            "
0 syn         | SYN      | 20/inf  | 1000
0 write max   |          | 20/inf  | 1000
20 open       | 0 to 19  | 20/inf  | 220
40 ack 2 ece  | 20c      | 19/10   | 240
40 ack 4 ece  | 21       | 18/10   | 240
40 ack 6      | 22       | 17/10   | 240
40 ack 12     | 23 to 25 | 14/10   | 240
41 ack 20     | 26 to 29 | 10/10   | 241
60 ack 24     | 30 to 33 | 10.4/10 | 260
61 ack 30 ece | 34c      | 5/5     | 261
",
        ),
        (
            SenderConfig { timestamps: true, ..sack() },
            "
0 syn                 | SYN      | 20/inf | 1000
0 write max           |          | 20/inf | 1000
20 open               | 0 to 19  | 20/inf | 220
40 ack 2 3-6 echo=20  | 2r       | 9/9    | 240
41 ack 7 8-9 echo=20  | 20 to 31 | 24/inf | 241
42 ack 7 8-12 echo=20 | 7r       | 12/12  | 242
43 ack 14 echo=20     | 32 to 39 | 26/inf | 243
60 ack 24 echo=40     | 40 to 51 | 28/inf | 260
",
        ),
        (
            SenderConfig { timestamps: true, initial_window: 6, ..newreno() },
            "
0 syn              | SYN      | 6/inf  | 1000
0 write max        |          | 6/inf  | 1000
20 open            | 0 to 5   | 6/inf  | 220
timer              | 0r       | 1/3    | 620
330 ack 2 echo=20  | 6 to 9   | 8/inf  | 706.25
331 ack 6 echo=20  | 10 to 15 | 10/inf | 913.844
351 ack 9 echo=330 | 16 to 20 | 12/inf | 868.863
",
        ),
        (
            SenderConfig { congestion: cubic(HyStartKind::None, true), ..sack() },
            "
0 syn          | SYN        | 20/inf      | 1000
0 write max    |            | 20/inf      | 1000
20 open        | 0 to 19    | 20/inf      | 220
40 ack 2 3-6   | 2r         | 12.6/12.6   | 240
60 ack 20      | 20 to 32   | 13.23/12.6  | 260
61 ack end-5   | 33 to 40   | 13.55/12.6  | 261
500 ack end-0  | 41 to 56   | 16.652/12.6 | 1023.922
1500 ack end-0 | 57 to 77   | 21.062/12.6 | 2956.322
2500 ack end-0 | 78 to 98   | 21.996/12.6 | 4553.95
2501 ack end-9 | 99 to 110  | 21.997/12.6 | 4364.916
3500 ack end-0 | 111 to 132 | 22.299/12.6 | 5802.104
4500 ack end-2 | 133 to 154 | 24.915/12.6 | 7048.974
",
        ),
        (
            SenderConfig { pacing: true, initial_window: 4, ..sack() },
            "
0 syn       | SYN | 4/inf | 1000
0 write max |     | 4/inf | 1000
20 open     | 0   | 4/inf | 22.5
timer       | 1   | 4/inf | 25
timer       | 2   | 4/inf | 27.5
timer       | 3   | 4/inf | 30
40 ack 2    | 4   | 6/inf | 41.667
timer       | 5   | 6/inf | 43.333
timer       | 6   | 6/inf | 45
timer       | 7   | 6/inf | 46.667
timer       |     | 6/inf | 240
60 ack 4    | 8   | 8/inf | 61.367
",
        ),
    ]);
}

/// RFC 3042 and 6675: rules of the next segment when little is outstanding.
#[test]
fn small_windows_and_rescues() {
    check(&[
        (
            SenderConfig { initial_window: 6, ..sack() },
            "
0 syn          | SYN     | 6/inf   | 1000
0 write 8000   |         | 6/inf   | 1000
20 open        | 0 to 5  | 6/inf   | 220
40 ack 0 1-3   | 6 7     | 6/inf   | 220
40 ack 0 1-4   | 0r      | 3/3     | 240
41 ack 0 1-5   |         | 3/3     | 241
42 ack 0 1-7   | 7r      | 3/3     | 242
60 ack 0 1-7   |         | 3/3     | 242
61 ack 8       |         | 3.667/3 | -
200 write 3000 | 8 to 10 | 3.667/3 | 400
201 close      | 11f     | 3.667/3 | 400
221 ack 10     |         | 3.667/3 | 421
timer          | 10r     | 1/2     | 821
800 ack 11     | 11rf    | 2/2     | 1200
",
        ),
        (
            SenderConfig {
                initial_window: 10,
                adaptive_reordering: true,
                timestamps: true,
                ..sack()
            },
            "
0 syn                 | SYN      | 10/inf | 1000
0 write max           |          | 10/inf | 1000
20 open               | 0 to 9   | 10/inf | 220
40 ack 0 1-6 echo=20  | 0r       | 5/5    | 240
41 ack 6 echo=20      | 10 to 17 | 12/inf | 241
60 ack 8 9-13 echo=20 | 18 to 25 | 14/inf | 260
61 ack 8 9-16 echo=40 | 8r       | 7/7    | 261
62 ack 8 9-17 echo=40 |          | 7/7    | 262
80 ack 20 echo=60     | 26 to 35 | 16/inf | 280
",
        ),
        (
            SenderConfig { initial_window: 10, decrease_from_window: true, ..sack() },
            "
0 syn        | SYN      | 10/inf | 1000
0 write max  |          | 10/inf | 1000
20 open      | 0 to 9   | 10/inf | 220
40 ack 5     | 10 to 19 | 15/inf | 240
40 ack 5 6-9 | 5r       | 7/7    | 240
60 ack 15    | 20 21    | 7/7    | 260
61 ack 18    | 22 to 24 | 7/7    | 261
",
        ),
        (
            SenderConfig { initial_window: 4, ..config() },
            "
0 syn         | SYN    | 4/inf  | 1000
0 write 12000 |        | 4/inf  | 1000
20 open       | 0 to 3 | 4/inf  | 240
40 ack 4      | 4 to 9 | 6/inf  | 260
41 stop       |        | 6/inf  | 260
60 ack 8      | 10f    | 8/inf  | 280
61 ack 10     |        | 10/inf | 281.125
",
        ),
        (
            SenderConfig {
                initial_window: 10,
                congestion: Congestion::dctcp(),
                ecn: EcnMode::Dctcp,
                ..sack()
            },
            "
0 syn             | SYN          | 10/inf      | 1000
0 write max       |              | 10/inf      | 1000
20 open           | 0 to 9       | 10/inf      | 220
40 ack 2 ece      |              | 5/5         | 240
41 ack 4 ece      |              | 5/5         | 241
42 ack 10         | 10c 11 to 15 | 6.2/5       | 242
60 ack 12         | 16 17        | 6.523/5     | 260
61 ack 14 ece     |              | 3.424/3.424 | 261
80 ack end-0      | 18c 19 to 21 | 4.592/3.424 | 280
100 ack end-2 ece |              | 2.487/2.487 | 300
101 ack end-3     |              | 2.487/2.487 | 300
102 ack end-4 ece |              | 2.487/2.487 | 300
",
        ),
    ]);
}
