#!/usr/bin/env bash
# Packs what a build folder has as zplan_VERSION_ARCH.deb, installs it with dpkg into an empty root,
# beside what it depends on and nothing else, and uses it there: no source tree, no home.
# Where that folder has the CUDA plug-in, zplan-cuda is packed and installed beside it.
#   tests/packages/deb.sh PROGRAM ROOT
# PROGRAM lies in bin/ of the build folder. Exit code 77: a tool is missing, and is named.
# What zplan depends on is copied from the packages of this system, so that no network is needed.
set -euo pipefail

build=$(cd -- "$(dirname -- "$1")/.." && pwd)
skip() { echo "skipped: $1"; exit 77; }
fail() { echo "FAIL: $1" >&2; exit 1; }
for tool in cpack dpkg dpkg-deb dpkg-query dpkg-shlibdeps chroot mount unshare tar; do
  command -v "$tool" >/dev/null || skip "no $tool"
done
[[ -r $build/CPackConfig.cmake ]] || skip "$build has no CPackConfig.cmake"
((EUID == 0)) || skip "an empty root needs root"

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd -- "$work"
parts=zplan
if [[ -e $build/bin/libzplan_cuda.so ]]; then parts='zplan;zplan-cuda'; fi
cpack --config "$build/CPackConfig.cmake" -D "CPACK_COMPONENTS_ALL=$parts" -B "$work/out" >log 2>&1 ||
  { cat log >&2; fail "cpack"; }
package=$(ls out/zplan_*.deb)

# ---- what the package says of itself -----------------------------------------------------------
depends=$(dpkg-deb -f "$package" Depends)
echo "$(basename -- "$package"), depends on $depends"
[[ $(dpkg-deb -f "$package" Package) == zplan ]] || fail "the package is not called zplan"
for library in libc6 libstdc++6 libfmt; do
  [[ $depends == *$library* ]] || fail "it does not depend on $library"
done
dpkg-deb -c "$package" >files
for file in ./usr/bin/zplan ./usr/share/man/man1/zplan.1 ./usr/share/doc/zplan/copyright \
  ./usr/share/bash-completion/completions/zplan; do
  grep -q " $file\$" files || fail "it has no $file"
done
if grep -qE ' \./(work|root|home|tmp|usr/local)/' files; then fail "it has files of the build"; fi

# ---- an empty root with its dependencies --------------------------------------------------------
root=$work/root
mkdir -p "$root"/usr/{bin,lib,lib64,sbin} "$root"/{proc,tmp,var/lib/dpkg/{info,updates,triggers}}
for folder in bin lib lib64 sbin; do ln -s "usr/$folder" "$root/$folder"; done
: >"$root/var/lib/dpkg/status"

names_of() {  # the first choice of each dependency, without its version
  tr ',' '\n' | sed -e 's/|.*//' -e 's/(.*//' -e 's/:any//' -e 's/ //g' | sed '/^$/d'
}
stanza='Package: ${Package}\nStatus: install ok installed\nMaintainer: x\nArchitecture: ${Architecture}\n'
stanza+='Version: ${Version}\nDescription: x\n\n'
declare -A seen=()
queue=$(names_of <<<"$depends")
while [[ -n $queue ]]; do
  next=
  for name in $queue; do
    [[ -z ${seen[$name]:-} ]] || continue
    seen[$name]=1
    dpkg-query -W "$name" >/dev/null 2>&1 || skip "$name is not installed here"
    dpkg-query -W -f "$stanza" "$name" >>"$root/var/lib/dpkg/status"
    dpkg-query -L "$name" | while read -r path; do
      if [[ -f $path || -L $path ]]; then echo "$(realpath -s --relative-to=/ -- "$path")"; fi
    done >>wanted
    next+=" $(dpkg-query -W -f '${Pre-Depends},${Depends}\n' "$name" | names_of | tr '\n' ' ')"
  done
  queue=$next
done
# Into usr/, wherever a package has them.
tar -C / -cf - --files-from=wanted 2>/dev/null |
  tar -C "$root" -xf - --transform='s,^\(bin\|lib\|lib64\|sbin\)/,usr/\1/,' 2>/dev/null || true

# ---- installed, used, removed ------------------------------------------------------------------
dpkg --root="$root" --log=/dev/null -i "$package" >log 2>&1 || { cat log >&2; fail "dpkg -i"; }
# Only /proc is that of this system; the mount ends with the process.
inside() {
  env -i PATH="$PATH" unshare --mount sh -c \
    'mount --rbind /proc "$0/proc" && exec chroot "$0" /usr/bin/zplan "$@"' "$root" "$@"
}
inside --version >/dev/null 2>&1 || skip "nothing may be mounted here"
inside --version
inside plan --model tiny-gpt --cluster workstation -o /tmp/plan.json --json >answer.json ||
  fail "zplan plan"
grep -q '"zplan.answer/1"' answer.json || fail "no answer"
inside simulate /tmp/plan.json >/dev/null || fail "zplan simulate"
inside run /tmp/plan.json --steps 1 >/dev/null || fail "zplan run"
inside models | grep -q llama3-70b || fail "no catalogue"
inside doctor | grep -q "is not beside the program" || fail "zplan doctor without zplan-cuda"
installed=(zplan)
if [[ $parts == *cuda* ]]; then
  dpkg --root="$root" --log=/dev/null -i out/zplan-cuda_*.deb >log 2>&1 ||
    { cat log >&2; fail "dpkg -i zplan-cuda"; }
  if inside doctor | grep -q "is not beside the program"; then fail "zplan doctor with zplan-cuda"; fi
  installed+=(zplan-cuda)
fi
dpkg --root="$root" --log=/dev/null -r "${installed[@]}" >log 2>&1 || { cat log >&2; fail "dpkg -r"; }
if find "$root/usr" -name '*zplan*' | grep -q .; then fail "files are left behind"; fi
echo "${installed[*]}: packed, installed, used and removed"
