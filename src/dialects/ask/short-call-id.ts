/**
 * An id of a call that is not longer than a provider takes: those of other servers may be. The same
 * id always becomes the same short one, so calls and results still match.
 */
export function shortCallId(id: string, lengthMax: number): string {
  if (id.length <= lengthMax) return id;
  const digest = new Bun.CryptoHasher('sha256').update(id).digest('hex');
  return `call_${digest.slice(0, 24)}`;
}

const isNineCharacters = /^[A-Za-z0-9]{9}$/;

/** The same for Mistral, which wants nine letters and digits. */
export function nineCharacters(id: string): string {
  if (isNineCharacters.test(id)) return id;
  const digest = new Bun.CryptoHasher('sha256').update(id).digest();
  const number = digest.subarray(0, 8).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  return number.toString(36).padStart(9, '0').slice(-9);
}
