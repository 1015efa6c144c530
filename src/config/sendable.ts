/** Set by each request itself; a second value could make a server read one request as two. */
const ofBody = /^(?:content-length|transfer-encoding)$/i;

/** Whether this header can be sent; otherwise every request would fail. */
export function isSendable(name: string, value: string): boolean {
  // Clients and servers disagree on the encoding of letters beyond ASCII.
  if (ofBody.test(name) || !/^[\t\n\r\x20-\x7e]*$/.test(value)) return false;
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}

export const unsendableKey = 'has characters that no header can carry; was it copied whole?';
