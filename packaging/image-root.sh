#!/bin/sh
# Makes the root of the image `perhop` from packages of the Debian that runs this: files of a few
# packages, the libraries that programs and modules load, and a shell.
# usage: packaging/image-root.sh ROOT DIST
set -eu
root=$1 dist=$2

# Places of programs and libraries, which in a Debian with a merged /usr are links.
mkdir -p "$root/usr"
for place in bin sbin lib lib64; do
  mkdir -p "$root/usr/$place"
  if [ -L "/$place" ]; then cp -a "/$place" "$root/"; fi
done
mkdir -p "$root/dev" "$root/etc" "$root/opt" "$root/proc" "$root/run" "$root/sys"
install -d -m 1777 "$root/tmp" "$root/var/tmp"
install -d -o 65532 -g 65532 "$root/work"
printf 'root:x:0:0::/root:/bin/sh\nperhop:x:65532:65532::/work:/bin/sh\n' > "$root/etc/passwd"
printf 'root:x:0:\nperhop:x:65532:\n' > "$root/etc/group"

python=$(basename "$(readlink -f /usr/bin/python3)")
documents='^/usr/share/(bash-completion|binfmts|bug|doc|lintian|man|pixmaps)/'
dpkg -L busybox iproute2 netbase nftables \
  python3-minimal "$python-minimal" "lib$python-minimal" "lib$python-stdlib" \
  | grep -vE "$documents|/(idlelib|lib2to3|pydoc_data)/" \
  | while read -r path; do
    if [ -f "$path" ] || [ -L "$path" ]; then cp -a --parents "$path" "$root"; fi
  done

# A virtual environment cannot be moved. pip has its own.
python3 -m venv --without-pip /opt/perhop
python3 -m venv /tmp/pip
/tmp/pip/bin/pip --python /opt/perhop/bin/python install --no-cache-dir --no-compile --quiet \
  "$dist"/perhop-[0-9]*_"$(uname -m)".whl
# Polars comes with 40 MB of symbols.
find /opt/perhop -name '*.so' -exec strip --strip-unneeded {} +
cp -a /opt/perhop "$root/opt/"
# Its user cannot write what Python compiles.
"$python" -m compileall -q -s "$root" "$root/usr/lib/$python" "$root/opt/perhop"

# Libraries, under the names by which programs load them.
find "$root" -type f \( -perm -100 -o -name '*.so*' \) -exec ldd {} + 2> /dev/null \
  | awk '$(NF - 1) ~ /^\// && $NF ~ /^\(0x/ { print $(NF - 1) }' | sort -u \
  | while read -r library; do cp -L --parents "$library" "$root"; done

# BusyBox has the commands that no other package has.
for name in $(busybox --list); do
  [ -e "$root/usr/bin/$name" ] || [ -e "$root/usr/sbin/$name" ] \
    || ln -s busybox "$root/usr/bin/$name"
done
