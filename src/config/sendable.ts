/** Whether the runtime sends this header as it is; else it would fail at the first request. */
export function isSendable(name: string, value: string): boolean {
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}

export const unsendableKey = 'has characters that no header can carry; was it copied whole?';
