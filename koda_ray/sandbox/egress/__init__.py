"""The way out of a sandbox: everything is refused but what SANDBOX_EGRESS_HOSTS lists, and every decision is noted.

A sandbox has no network. Where it may reach something, one Unix socket is mounted into it, on which a proxy of its own
listens outside; a forwarder inside (``guest/egress.mjs``, or a container's first process) makes that a port of its own
loopback, where HTTP_PROXY and its kin point. When the proxy is gone, the socket leads nowhere, and there is no other
way. Any provider can use these:

    at = EgressSocket(path=path, owner=uid)
    proxy = await EgressProcess.start(at, egress=egress, audit=audit)   # outside, one for each sandbox
    node egress.mjs SOCKET PORT [PROGRAM ARGUMENT...]                   # inside, around a program or alone
    proxied.proxy_environment()                                         # for the programs inside

A socket that is mounted as a file stays that of the proxy it was made by. Where a sandbox lives on while proxies come
and go, mount the folder that the socket lies in, and nothing else with it.

    rules         what is allowed, as text           addresses     what is never connected to
    request       reading and rewriting requests     hello         the name in a TLS handshake
    conversation  one connection                     tunnel, wire  its bytes
    budget        what one sandbox has used          audit         what is noted of it
    proxy         all connections of a sandbox       process       the proxy as a process of its own
"""
