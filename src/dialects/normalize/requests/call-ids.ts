/**
 * Converts call ids of another provider to ids that a provider accepts. The same id always gets the
 * same replacement, so calls and results still match.
 */

export function shortCallId(id: string, lengthMax: number): string {
  return id.length <= lengthMax ? id : `call_${digestOf(id).slice(0, 24)}`;
}

/** Replaces the dots, colons, and other characters that some providers use in ids. */
export function plainCallId(id: string): string {
  if (/^[\w-]+$/.test(id)) return id;
  return `${id.replace(/[^\w-]/g, '_')}_${digestOf(id).slice(0, 8)}`;
}

const nineCharacterPattern = /^[A-Za-z0-9]{9}$/;

/** For Mistral, which requires 9 letters and digits. */
export function nineCharacterCallId(id: string): string {
  if (nineCharacterPattern.test(id)) return id;
  const number = BigInt(`0x${digestOf(id).slice(0, 16)}`);
  return number.toString(36).padStart(9, '0').slice(-9);
}

export function digestOf(id: string): string {
  return new Bun.CryptoHasher('sha256').update(id).digest('hex');
}
