/** Each request tells the length of its own body: told twice, it may be read as two requests. */
const ofBody = /^(?:content-length|transfer-encoding)$/i;

/** Whether requests can have this header; else the first one would fail. */
export function isSendable(name: string, value: string): boolean {
  // Letters beyond ASCII are told in more than one way.
  if (ofBody.test(name) || !/^[\t\n\r\x20-\x7e]*$/.test(value)) return false;
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}

export const unsendableKey = 'has characters that no header can carry; was it copied whole?';
