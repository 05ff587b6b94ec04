"""The pages of the sign-in: plain HTML forms without scripts, which work before, and without, a console."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from urllib.parse import quote

from perdure.api.http_requests import ApiAnswer, Headers
from perdure.service.callers import Caller

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 12vh auto; padding: 0 1rem; color: #1c1e21; background: #fff }
h1 { font-size: 1.3rem } label { display: block; margin: 1rem 0 .3rem } p.error { color: #a40000 }
input, select, textarea { width: 100%; box-sizing: border-box; font: inherit; padding: .5rem } input[type=checkbox] { width: auto } p.hint { margin: 0 }
dt { font-weight: bold } dd { margin: 0 0 .5rem } pre { overflow-x: auto; white-space: pre-wrap }
button { font: inherit; padding: .5rem 1rem; margin-top: 1rem }
@media (prefers-color-scheme: dark) { body { color: #e4e6eb; background: #18191a } p.error { color: #ff8a80 } a { color: #8ab4f8 } }
"""
POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The content security policy: a page loads its own style and nothing else, and its forms go to these addresses."""

PAGE_HEADERS: Headers = ((b"referrer-policy", b"same-origin"),)
"""With `no-referrer`, browsers would send the forms of these pages without their origin, and the server would refuse them."""


def html_answer(status: int, title: str, body: str, headers: Headers = ()) -> ApiAnswer:
    """A page."""
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    whole = f"{page}<style>{STYLE}</style><main><h1>{escape(title)}</h1>{body}</main></html>\n"
    return ApiAnswer(status, whole.encode(), "text/html; charset=utf-8", ((b"content-security-policy", POLICY.encode()), *headers))


def sign_in_page(root: str, next: str, *, has_issuer: bool, error: str = "", status: int = 200, headers: Headers = ()) -> ApiAnswer:
    """The page with the form for a key, and the way to the issuer if there is one. `next` is the path that follows."""
    said = f'<p class="error" role="alert">{escape(error)}</p>' if error else ""
    issuer = f'<p><a href="{escape(root)}/login/oidc?next={quote(next, safe="")}">Sign in with your organization</a></p>' if has_issuer else ""
    form = (
        f'<form method="post" action="{escape(root)}/login"><input type="hidden" name="next" value="{escape(next)}">'
        '<label for="key">Key</label><input id="key" name="key" type="password" autocomplete="off" required autofocus><button>Sign in</button></form>'
    )
    return html_answer(status, "Sign in to Perdure", f"{said}{issuer}{form}", (*PAGE_HEADERS, *headers))


def signed_in_page(root: str, caller: Caller, csrf: str, *, has_console: bool) -> ApiAnswer:
    """The page for somebody who is signed in."""
    roles = ", ".join(sorted(caller.roles))
    who = f"<p>You are <b>{escape(caller.subject)}</b> in the tenant <b>{escape(caller.tenant)}</b>, with the roles: {escape(roles)}.</p>"
    console = f'<p><a href="{escape(root)}/">Open the console</a></p>' if has_console else ""
    form = f'<form method="post" action="{escape(root)}/logout"><input type="hidden" name="csrf" value="{escape(csrf)}"><button>Sign out</button></form>'
    return html_answer(200, "Perdure", who + console + form, PAGE_HEADERS)
