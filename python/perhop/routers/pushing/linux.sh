# Run on a Linux machine by `perhop export --push ssh://…`, with a policy in the file $new. Keeps the
# policy if "keep" comes in time, and otherwise restores what was there: also if the connection ends.
# Needs: $devices, $folder, $new, $seconds.
set -u
umask 077
trap '' HUP INT PIPE

refuse() { echo "$*" >&2; rm -f "$new"; exit 3; }
holds() { case " $2 " in *" $1 "*) return 0 ;; esac; return 1; }
root_of() { tc qdisc show dev "$1" | sed -n '/^qdisc [^ ]* [^ ]* root /{p;q;}'; }

exec 9> "$folder/lock" || exit 3
flock -n 9 || refuse "another push to this machine is under way; try again after it"
[ "$(id -u)" = 0 ] || refuse "the user is not root, who alone may configure queues"
before=
[ ! -e "$folder/pushed" ] || before=$(cat "$folder/devices")
for device in $devices; do
    ip link show dev "$device" > /dev/null 2>&1 || refuse "there is no interface $device"
    if ! holds "$device" "$before"; then
        found=$(root_of "$device")
        case $found in
        '' | 'qdisc '*' 0: root '*) ;;
        *) refuse "$device has a queueing discipline that no push made: $found; remove it, after" \
            "saving it if you need it: tc qdisc del dev $device root" ;;
        esac
    fi
done
if [ -z "$before" ] && nft list table inet perhop > /dev/null 2>&1; then
    refuse "nft has a table inet perhop that no push made; remove it: nft delete table inet perhop"
fi

show() {
    for device in $1; do
        for what in qdisc class filter; do
            echo "# tc -d -j $what show dev $device"
            tc -d -j "$what" show dev "$device"
        done
        if root_of "$device" | grep -q ' 1: root '; then
            echo "# tc -d -j filter show dev $device parent 1:"
            tc -d -j filter show dev "$device" parent 1:
        fi
    done
    if nft list table inet perhop > /dev/null 2>&1; then nft -j list table inet perhop; fi
}

if [ "$seconds" = 0 ]; then
    [ -z "$before" ] || cat "$folder/pushed"
    echo "== state"
    show "$before"
    exit 0
fi

remember() {  # how a device hands over packets before the first push
    segments=$(ip -d link show dev "$1" | sed -n 's/.* gso_max_segs \([0-9]*\).*/\1/p')
    echo "ip link set dev $1 gso_max_segs ${segments:-65535}"
    ethtool -k "$1" 2> /dev/null | sed -n \
        -e "s/^generic-receive-offload: \([a-z]*\)$/ethtool -K $1 gro \1/p" \
        -e "s/^large-receive-offload: \([a-z]*\)$/ethtool -K $1 lro \1/p"
}
remove() {
    for device in $1; do
        case $(root_of "$device") in *' 0: root '*) ;; *) tc qdisc del dev "$device" root ;; esac
    done
    if nft list table inet perhop > /dev/null 2>&1; then nft delete table inet perhop; fi
}
reset() {  # devices of the first list that are not in the second one, as before the first push
    for device in $1; do
        if ! holds "$device" "$2"; then
            sh "$folder/before-$device"
            rm -f "$folder/before-$device"
        fi
    done
}
restore() {
    remove "$before $devices"
    reset "$devices" "$before"
    [ -z "$before" ] || sh -e "$folder/pushed" > /dev/null
}

for device in $devices; do
    holds "$device" "$before" || remember "$device" > "$folder/before-$device"
done
remove "$before"
if ! sh -e "$new" > /dev/null 2> "$folder/said"; then
    restore 2> "$folder/trouble"
    rm -f "$new"
    echo "== failed"
    cat "$folder/said"
    [ ! -s "$folder/trouble" ] || exit 5
    exit 4
fi
show "$devices"
echo "== applied"
answer=$(timeout "$seconds" head -n 1)
if [ "$answer" = keep ]; then
    reset "$before" "$devices"
    mv "$new" "$folder/pushed"
    echo "$devices" > "$folder/devices"
    echo "== kept"
    exit 0
fi
restore 2> "$folder/trouble"
rm -f "$new"
[ ! -s "$folder/trouble" ] || exit 5
exit 4
