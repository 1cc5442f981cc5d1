#!/bin/bash
# Builds a Python 3.11 on musl, with what a crawl imports: musl_python.sh FOLDER; FOLDER/bin/python3.11 is it.
# On Debian for x86-64, with gcc, make, musl-tools, libssl-dev, curl and uv: two minutes of CPU, no root.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$folder/bin/python3.11
"$python" -c 'import ctypes, sqlite3, ssl, zlib' 2>/dev/null && exit
parts=$folder/parts
mkdir -p "$parts/include/openssl" "$parts/lib" "$folder/bin" "$folder/lib/python3.11"

debian=https://deb.debian.org/debian/pool/main
security=https://deb.debian.org/debian-security/pool/updates/main
# What, where, which.
sources="
python $security/p/python3.11/python3.11_3.11.2.orig.tar.gz 2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849
zlib $debian/z/zlib/zlib_1.2.13.dfsg.orig.tar.bz2 71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1
libffi $debian/libf/libffi/libffi_3.4.4.orig.tar.gz d66c56ad259a82cf2a9dfc408b32bf5da52371500b84745f7fb8b645712df676
sqlite https://registry.npmjs.org/better-sqlite3/-/better-sqlite3-12.11.1.tgz ebf0ed75a7a59dbcb3b24bbd014ef49d9f15bc328e4adcbf516f2a8fadfa2835
"
echo "$sources" | while read -r name url sha256; do
    [ -n "$name" ] && [ ! -e "$parts/$name" ] || continue
    curl -sSfL -o "$parts/$name.tar" "$url"
    echo "$sha256  $parts/$name.tar" | sha256sum --quiet -c
    mkdir "$parts/$name"
    tar -xf "$parts/$name.tar" --strip-components=1 -C "$parts/$name"
done

# A build of CPython adds the folders of the system's own C library by itself.
cat > "$parts/cc" <<'END'
#!/bin/bash
[ "$1" = --print-multiarch ] && { echo x86_64-linux-musl; exit; }
kept=()
for word; do
    case $word in
        -I/usr/* | -L/usr/*) ;;
        *) kept+=("$word") ;;
    esac
done
exec musl-gcc "${kept[@]}"
END
chmod +x "$parts/cc"
export CC=$parts/cc CFLAGS="-O1 -fPIC"

# Shared OpenSSL of Alpine comes in a wheel; its headers are Debian's, without what Alpine leaves out.
# It relocates as musl does since 1.2.4, and Debian 12 has 1.2.3: the loader is the one of Debian 13.
"${UV:-uv}" pip install -q --no-deps --python-platform x86_64-unknown-linux-musl --python-version 3.11 \
    --only-binary :all: --target "$parts/psycopg" psycopg-binary==3.3.9
cp "$parts"/psycopg/psycopg_binary.libs/lib{crypto,ssl}-* "$folder/lib"
ln -sf "$(basename "$folder"/lib/libcrypto-*)" "$folder/lib/libcrypto.so"
ln -sf "$(basename "$folder"/lib/libssl-*)" "$folder/lib/libssl.so"
cp -L /usr/include/openssl/*.h /usr/include/x86_64-linux-gnu/openssl/*.h "$parts/include/openssl"
sed -i '0,/^# *ifndef OPENSSL_NO_/s//# define OPENSSL_NO_COMP\n&/' "$parts/include/openssl/configuration.h"
curl -sSfL -o "$parts/musl.deb" "$debian/m/musl/musl_1.2.5-3_amd64.deb"
echo "4288deaf14438e6c237491be45f10e3e7badb2e723cedfb08ff1fe687b646c84  $parts/musl.deb" | sha256sum --quiet -c
dpkg-deb -x "$parts/musl.deb" "$parts/musl"
cp "$parts/musl/usr/lib/x86_64-linux-musl/libc.so" "$folder/lib/ld-musl-x86_64.so.1"

(cd "$parts/zlib" && ./configure --static >/dev/null && make -s libz.a && cp zlib.h zconf.h "$parts/include" && cp libz.a "$parts/lib")
(cd "$parts/libffi" && ./configure -q --host=x86_64-linux-musl --disable-shared --disable-docs --disable-exec-static-tramp --prefix="$parts" &&
    make -s && make -s install) >/dev/null 2>&1
(cd "$parts/sqlite/deps/sqlite3" && $CC $CFLAGS -DSQLITE_THREADSAFE=1 -c sqlite3.c && ar rcs "$parts/lib/libsqlite3.a" sqlite3.o && cp sqlite3.h "$parts/include")

cd "$parts/python"
log=$parts/python.log
CFLAGS=-O1 ./configure -q --build=x86_64-linux-musl --host=x86_64-linux-musl --prefix="$folder" --disable-test-modules \
    CPPFLAGS="-I$parts/include" LDFLAGS="-L$parts/lib -L$folder/lib -Wl,-rpath,$folder/lib,--dynamic-linker=$folder/lib/ld-musl-x86_64.so.1" >"$log" 2>&1
make -s -j2 LIBFFI_INCLUDEDIR="$parts/include" >>"$log" 2>&1
# All but `make libinstall`, which compiles the whole library thrice.
make -s altbininstall sharedinstall inclinstall libainstall >>"$log" 2>&1
tar -cf - -C Lib --exclude=test --exclude=tests --exclude=idlelib --exclude=__pycache__ . | tar -xf - -C "$folder/lib/python3.11"
cp build/lib*/_sysconfigdata* "$folder/lib/python3.11"
"$python" -c 'import ctypes, sqlite3, ssl, zlib'
