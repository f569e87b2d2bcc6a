# shellcheck shell=bash
# The system packages of this project, and how to get them; sourced by ./zplan and tests/run.
# One line per package: name, a command that also proves it is there ("-": none), what it is for.

zplan_packages_build() {
  cat <<'LIST'
g++                  g++     C++20 compiler
cmake                cmake   build system
ninja-build          ninja   build system
nlohmann-json3-dev   -       reading and writing JSON
libcli11-dev         -       command line
libfmt-dev           -       text formatting
libboost-graph-dev   -       routes in the network topology
libxxhash-dev        -       checksums of checkpoints
LIST
}

zplan_packages_optional() {
  cat <<'LIST'
libdnnl-dev          -       fast fp32 matrix products on the CPU
liburing-dev         -       io_uring for states on NVMe
libyaml-cpp-dev      -       configurations in YAML
libtomlplusplus-dev  -       configurations in TOML
zlib1g-dev           -       compressed traces
node-d3              -       the charts of zplan report
ccache               ccache  quick rebuilds
LIST
}

zplan_packages_tests() {
  cat <<'LIST'
libgtest-dev         -       test framework
libgmock-dev         -       test framework
librapidcheck-dev    -       property tests
libboost-context-dev -       kernels for CUDA on the host: threads of a block are fibers
python3              python3 test scripts and checks
LIST
}

# Reads package lines on stdin, prints the names of those that are missing.
zplan_missing() {
  local name probe
  while read -r name probe _; do
    if [[ $probe != - ]] && command -v "$probe" >/dev/null 2>&1; then continue; fi
    case $(dpkg-query -W -f '${Status}' "$name" 2>/dev/null) in
      *" installed") ;;
      *) printf '%s\n' "$name" ;;
    esac
  done
}

# zplan_install PACKAGE...: as root, or through sudo when ZPLAN_YES=1 or the user agrees.
# Returns 1 if it may not or cannot install. Writes to stderr only.
zplan_install() {
  local command=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  if ((EUID != 0)); then
    command -v sudo >/dev/null 2>&1 || return 1
    if [[ ${ZPLAN_YES:-} != 1 ]]; then
      [[ -t 0 && -t 2 ]] || return 1
      local answer
      read -r -p "zplan needs the packages: $* - install them with sudo? [y/N] " answer
      [[ $answer == [yY]* ]] || return 1
    fi
    command=(sudo "${command[@]}")
  fi
  echo "zplan: installing $*" >&2
  "${command[@]}" -q update >&2 || echo "zplan: apt-get update failed, trying without" >&2
  "${command[@]}" -q -y --no-install-recommends install "$@" </dev/null >&2
}

# zplan_ensure WITH_OPTIONAL LIST...: makes the packages named by the functions zplan_packages_LIST
# present, and tries the optional ones if WITH_OPTIONAL is 1. Returns 4 if a needed one is missing.
zplan_ensure() {
  local with_optional=$1 list
  shift
  local needed=() optional=()
  if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    return 0  # not a Debian system: the configure step finds out, see zplan_package_help
  fi
  mapfile -t needed < <(for list in "$@"; do "zplan_packages_$list"; done | zplan_missing)
  if ((with_optional)); then
    mapfile -t optional < <(zplan_packages_optional | zplan_missing)
  fi
  if ((${#needed[@]} + ${#optional[@]} == 0)); then return 0; fi
  if zplan_install "${needed[@]}" "${optional[@]}"; then return 0; fi

  # Perhaps only an optional package is unknown here.
  if ((${#needed[@]} == 0)); then
    echo "zplan: going on without: ${optional[*]} (see tests/support/packages.sh)" >&2
    return 0
  fi
  if ((${#optional[@]} > 0)) && [[ $EUID == 0 || ${ZPLAN_YES:-} == 1 ]]; then
    if zplan_install "${needed[@]}"; then return 0; fi
  fi
  needed+=("${optional[@]}")
  echo "zplan: packages are missing; install them with" >&2
  echo "  sudo apt-get install --no-install-recommends ${needed[*]}" >&2
  return 4
}

# For a failed configure step on a system without apt.
zplan_package_help() {
  command -v apt-get >/dev/null 2>&1 && return 0
  echo "zplan: needed to build (Debian package names):" >&2
  { zplan_packages_build; zplan_packages_optional | sed 's/$/ (optional)/'; } >&2
}
