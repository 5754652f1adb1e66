#!/bin/sh
# Makes a certificate authority and a certificate per host, in the current folder:
#
#     certificates.sh NAME=ADDRESS ...
#
# Keep ca.key away from the hosts. A host gets ca.crt, NAME.crt and NAME.key. All certificates have the
# name auricle, for DYN_TCP_TLS_SERVER_NAME. Needs OpenSSL 3.
set -eu
umask 077
test -e ca.key || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
    -subj "/CN=auricle internal" -keyout ca.key -out ca.crt
for host in "$@"; do
    name=${host%%=*} address=${host#*=}
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
        -CA ca.crt -CAkey ca.key -subj "/CN=$name" \
        -addext "subjectAltName=DNS:$name,DNS:auricle,IP:$address" \
        -addext "extendedKeyUsage=serverAuth,clientAuth" \
        -addext "basicConstraints=critical,CA:FALSE" -keyout "$name.key" -out "$name.crt"
done
