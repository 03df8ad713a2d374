# A credential helper (gitcredentials(7)) that answers with the surrogates in this sandbox's variables, which the router replaces
# by values. It contains none of them.
[ "$1" = get ] || exit 0
protocol= host= username=
while IFS= read -r line && [ -n "$line" ]; do
    case $line in
    protocol=*) protocol=${line#*=} ;;
    host=*) host=${line#*=} ;;
    username=*) username=${line#*=} ;;
    esac
done
[ "$protocol" = https ] || exit 0
case ${host%:443} in
# SCOPES
*) exit 0 ;;
esac
[ -n "$token" ] || exit 0
# GitHub, GitLab and others expect some name beside a token.
[ -n "$username" ] || echo username=x-access-token
printf 'password=%s\n' "$token"
