/**
 * Replaces the call IDs of one provider with IDs that another accepts. The same ID always gets the
 * same replacement, so calls and results still match.
 */
export function shortCallId(id: string, lengthMax: number): string {
  return id.length <= lengthMax ? id : `call_${digestOf(id).slice(0, 24)}`;
}

/** Replaces the dots, colons, and other characters that some providers use in IDs. */
export function plainCallId(id: string): string {
  if (/^[\w-]+$/.test(id)) return id;
  return `${id.replace(/[^\w-]/g, '_')}_${digestOf(id).slice(0, 8)}`;
}

const nineCharacterPattern = /^[A-Za-z0-9]{9}$/;

/** Returns an ID for Mistral, which requires exactly 9 letters and digits. */
export function nineCharacterCallId(id: string): string {
  if (nineCharacterPattern.test(id)) return id;
  const number = BigInt(`0x${digestOf(id).slice(0, 16)}`);
  return number.toString(36).padStart(9, '0').slice(-9);
}

export function digestOf(id: string): string {
  return new Bun.CryptoHasher('sha256').update(id).digest('hex');
}
