"""The agent's door: who may come in, what each may call, what is noted and counted of every call.

`entrance` picks how one gets in, `tls` reads who calls from a certificate, `interceptors` holds every call to
`permissions` and notes it in `audit`. What a call then does is not here.
"""
