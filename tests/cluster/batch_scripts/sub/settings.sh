export FROM_A_SOURCED_FILE=1
work() { "$PWD/bin/call" "$@"; }
