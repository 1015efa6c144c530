/**
 * An id of a call that is not longer than a provider takes: those of other servers may be. The same
 * id always becomes the same short one, so calls and results still match.
 */
export function shortCallId(id: string, lengthMax: number): string {
  if (id.length <= lengthMax) return id;
  const digest = new Bun.CryptoHasher('sha256').update(id).digest('hex');
  return `call_${digest.slice(0, 24)}`;
}
