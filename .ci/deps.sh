#!/bin/sh
# Installs what this machine lacks to build and test psrt, says what and why,
# and never asks. What is there already is left alone: a second run installs
# nothing and opens no connection.
#
#   .ci/deps.sh        install, then leave .cache/bin/go and .cache/bin/gofmt
#                      pointing at a Go that is new enough
#   .ci/deps.sh lab    install what the lab takes besides (docs/lab.md)
#   .ci/deps.sh test   install what the tests take besides
#   .ci/deps.sh bpf    install what compiles the eBPF programs (make generate, make check)
#
#   PSRT_GO=/path/go   use this go and look for no other
#   PSRT_CACHE=DIR     where a Go of our own is kept (~/.cache/psrt)
set -eu
cd "$(dirname "$0")/.."
# The Makefile puts our links first in PATH; looked for is what lies behind.
PATH=${PATH#"$PWD/.cache/bin:"}

say() { printf 'deps: %s\n' "$*" >&2; }
die() { printf 'deps: error: %s\n' "$*" >&2; exit 1; }

# --- what the machine must be ----------------------------------------------

machine=$(uname -sm)
[ "$machine" = "Linux x86_64" ] ||
	die "this is $machine; the build supports Linux x86_64 only: use such a machine or a container of that kind"

# --- apt packages ----------------------------------------------------------

need() { # need PACKAGE WHY: note a package that is missing
	packages="$packages $1"
	reasons="$reasons
deps:   $1: $2"
}

blas=/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.a
look() { # by what is used of each, so that it may come from elsewhere, too
	packages=
	reasons=
	command -v gcc >/dev/null || need gcc "compiles the C parts (csrc)"
	[ -e /usr/include/stdio.h ] || need libc6-dev "C headers"
	[ -e "$blas" ] || need libopenblas-pthread-dev "matrix products; its static library is linked in"
	[ -e /usr/include/infiniband/verbs.h ] || need libibverbs-dev "header of the RDMA calls; the library itself is loaded at run time, if it is there"
	[ -e /etc/ssl/certs/ca-certificates.crt ] || need ca-certificates "to check whom Go modules come from"
	command -v git >/dev/null || need git "version stamp, and the check that generated files are unchanged"
}

provider=/usr/lib/x86_64-linux-gnu/libibverbs
look_lab() { # the same for the lab
	packages=
	reasons=
	command -v ib_write_lat >/dev/null || need perftest "measures RDMA, beside which psbench's figures are shown"
	set -- "$provider"/librxe-*.so
	[ -e "$1" ] || need ibverbs-providers "libibverbs' part for soft-RoCE"
	command -v rdma >/dev/null || [ -x /usr/sbin/rdma ] || [ -x /sbin/rdma ] || need iproute2 "makes the lab's network and RDMA devices"
	command -v xz >/dev/null || need xz-utils "unpacks the modules of newer kernels"
	set -- /sys/class/infiniband/*
	[ -e "$1" ] || command -v qemu-system-x86_64 >/dev/null ||
		need qemu-system-x86 "this machine has no RDMA device: the lab is a virtual machine that has two"
}

dist=/usr/lib/python3/dist-packages
look_test() { # the same for the tests; those of the bindings (csrc/examples) use Debian's Python
	packages=
	reasons=
	command -v fio >/dev/null || need fio "random reads, the limit that the SSD tier is held against"
	command -v g++ >/dev/null || need g++ "compiles the example in C++"
	command -v ip >/dev/null || [ -x /usr/sbin/ip ] || [ -x /sbin/ip ] || need iproute2 "makes the tests' own networks"
	command -v pkg-config >/dev/null || need pkg-config "finds the C library, as users' builds do"
	[ -e "$dist/numpy/__init__.py" ] || need python3-numpy "the example in Python trains with it"
	command -v mpirun >/dev/null || need openmpi-bin "starts jobs on the tests' hosts, as on a user's"
	command -v mpiexec.hydra >/dev/null || need mpich "so does MPICH's launcher"
	[ -x /usr/sbin/slurmctld ] || need slurmctld "so does SLURM: its controller"
	[ -x /usr/sbin/slurmd ] || need slurmd "its daemon on each host"
	command -v srun >/dev/null || need slurm-client "its commands"
	[ -x /usr/sbin/munged ] || need munge "what its parts know each other by"
	set -- /usr/lib/*/slurm*/mpi_pmix.so
	[ -e "$1" ] || need slurm-wlm-basic-plugins "what srun --mpi=pmix and pmi2 load"
	set -- /usr/lib/*/pmix2/lib/libpmix.so
	[ -e "$1" ] || need libpmix-dev "the name under which Debian's SLURM looks for PMIx"
	command -v spin >/dev/null || need spin "checks the model of the replication protocol"
	[ -e "$dist/torch/__init__.py" ] || need python3-torch "so does its twin with PyTorch (a large package)"
}

look_bpf() { # the same for the eBPF programs, whose objects are committed
	packages=
	reasons=
	command -v clang-14 >/dev/null || need clang-14 "compiles eBPF programs, to the bytes that are committed"
	command -v llvm-strip-14 >/dev/null || need llvm-14 "takes the line numbers out of them"
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

apt_updated=
install_packages() { # install_packages PACKAGE...
	command -v apt-get >/dev/null ||
		die "missing: $*, and there is no apt-get here: install their like with this system's package manager, then run make again"
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null ||
			die "missing: $*, and installing them needs root, but this user is $(id -un) and there is no sudo: run as root: apt-get install -y $*"
		sudo -n true 2>/dev/null ||
			die "missing: $*, and sudo wants a password: run: sudo apt-get install -y $*   then run make again"
	fi
	mkdir -p .cache
	log=.cache/apt.log
	if [ -z "$apt_updated" ]; then
		as_root apt-get -q update >"$log" 2>&1 || {
			tail -n 5 "$log" >&2
			die "apt-get update failed: is there a network, and are the sources in /etc/apt right? (whole log: $log)"
		}
		apt_updated=yes
	fi
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		-o DPkg::Lock::Timeout=120 install "$@" >"$log" 2>&1 || {
		tail -n 5 "$log" >&2
		die "apt-get install $* failed: is there a network? (whole log: $log)"
	}
}

install_missing() { # install_missing LOOK: what that function finds missing
	"$1"
	[ -n "$packages" ] || return 0
	say "installing by apt-get (a minute or so):$reasons"
	# shellcheck disable=SC2086 # a list of words
	install_packages $packages
	"$1"
	[ -z "$packages" ] ||
		die "apt-get says that these are installed, but they cannot be used:$packages: try apt-get install --reinstall -y$packages"
}

if [ "${1:-}" = bpf ]; then
	install_missing look_bpf
	exit
fi
if [ "${1:-}" = test ]; then
	install_missing look_test
	exit
fi
if [ "${1:-}" = lab ]; then
	install_missing look_lab
	exit
fi
install_missing look

# --- Go --------------------------------------------------------------------

# Two lines of go.mod decide: "go" is the oldest that will do, "toolchain" the
# one that is fetched.
oldest=$(sed -n 's/^go //p' go.mod)
toolchain=$(sed -n 's/^toolchain //p' go.mod)
cache=${PSRT_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/psrt}
own=$cache/$toolchain

version_of() { # the version of a go command, as 1.26.8; empty if it does not run
	GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//'
}

new_enough() { # new_enough GO: is it at least $oldest?
	v=$(version_of "$1") || return 1
	[ -n "$v" ] || return 1
	[ "$(printf '%s\n%s\n' "$oldest" "$v" | sort -V | head -n 1)" = "$oldest" ]
}

find_go() { # the first go that is new enough
	for g in "$(command -v go || true)" /usr/local/go/bin/go "$own/bin/go"; do
		if [ -n "$g" ] && [ -x "$g" ] && new_enough "$g"; then
			readlink -f "$g"
			return
		fi
	done
}

# fetch_go takes a Go of any age and fetches the right one with it, as a module:
# so it comes through the configured module proxy, checked by the checksum
# database.
fetch_go() {
	old=$(command -v go || true)
	if [ -z "$old" ]; then
		say "installing by apt-get:
deps:   golang-go: only to fetch $toolchain with it"
		install_packages golang-go
		old=$(command -v go) || die "golang-go is installed but there is no go in $PATH"
	fi
	say "fetching $toolchain into $own: go.mod asks for $oldest or newer, $old is $(version_of "$old")"
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/fetch.XXXXXX")
	trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
	(cd "$tmp" && GO111MODULE=on GOFLAGS=-modcacherw GOTOOLCHAIN=local GOMODCACHE="$tmp/mod" \
		"$old" mod download -json "golang.org/toolchain@v0.0.1-$toolchain.linux-amd64" >"$tmp/log" 2>&1) || {
		tail -n 5 "$tmp/log" >&2
		die "could not fetch $toolchain by Go's module proxy ($("$old" env GOPROXY)): is there a network? or set PSRT_GO to a go that is $oldest or newer"
	}
	dir=$(sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p' "$tmp/log")
	[ -d "$dir" ] || die "the module proxy's answer names no folder: $(cat "$tmp/log")"
	chmod -R u+w "$dir"
	chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
	# A module cannot hold a file named go.mod below its root, so these two
	# travel under another name.
	for f in src src/cmd; do
		if [ -e "$dir/$f/_go.mod" ]; then
			cp "$dir/$f/_go.mod" "$dir/$f/go.mod"
		fi
	done
	# Another make may have been quicker; either copy is right.
	[ -x "$own/bin/go" ] || mv "$dir" "$own"
}

link() { # link GO: what the Makefile calls
	mkdir -p .cache/bin
	for tool in go gofmt; do
		to=$(dirname "$1")/$tool
		[ -x "$to" ] || die "$1 has no $tool beside it: install the whole of Go, or set PSRT_GO to another go"
		[ "$(readlink .cache/bin/$tool 2>/dev/null)" = "$to" ] || ln -sfn "$to" .cache/bin/$tool
	done
}

if [ -n "${PSRT_GO:-}" ]; then
	new_enough "$PSRT_GO" ||
		die "PSRT_GO=$PSRT_GO is version '$(version_of "$PSRT_GO")', need $oldest or newer: set it to a newer go, or unset it"
	link "$(readlink -f "$PSRT_GO")"
	exit
fi
go=$(find_go)
if [ -z "$go" ]; then
	fetch_go
	go=$(find_go)
	[ -n "$go" ] || die "fetched $own/bin/go, but it does not run: remove $own and try again"
fi
link "$go"
