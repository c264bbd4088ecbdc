# Runs a server until standard input is closed, which the system does when the process at its other end dies.
# Arguments: the signal that ends the server, then its command.
signal=$1
shift
exec 3<&0 </dev/null 2>&1
"$@" 3<&- &
server=$!
{
    read -r line <&3
    kill "-$signal" "$server"
    tries=0
    while kill -0 "$server" && [ "$tries" -lt 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -KILL "$server"
} >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait "$server"
kill "$watch" 2>/dev/null
