// Where the server is: the path below which this page was served, which may be that of a proxy.

/** The address of the server, without a slash at its end. */
export const SERVER_URL = document.baseURI.replace(/[?#].*$/, "").replace(/\/+$/, "");

/** The path of the page's root, such as "" or "/perdure". */
export const ROOT_PATH = new URL(`${SERVER_URL}/`).pathname.replace(/\/+$/, "");

/** The nonce with which style elements may be added to this page. */
export const CSP_NONCE = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
