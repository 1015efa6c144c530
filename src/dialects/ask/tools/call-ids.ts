/**
 * Changes ids of calls that came from another provider into ones that a provider takes. The same
 * id always gets the same replacement, so calls and results still match.
 */

export function shortCallId(id: string, lengthMax: number): string {
  return id.length <= lengthMax ? id : `call_${digestOf(id).slice(0, 24)}`;
}

/** Replaces the dots, colons and the like that some providers put into their ids. */
export function plainCallId(id: string): string {
  if (/^[\w-]+$/.test(id)) return id;
  return `${id.replace(/[^\w-]/g, '_')}_${digestOf(id).slice(0, 8)}`;
}

const isNineCharacters = /^[A-Za-z0-9]{9}$/;

/** For Mistral, which wants nine letters and digits. */
export function nineCharacters(id: string): string {
  if (isNineCharacters.test(id)) return id;
  const number = BigInt(`0x${digestOf(id).slice(0, 16)}`);
  return number.toString(36).padStart(9, '0').slice(-9);
}

function digestOf(id: string): string {
  return new Bun.CryptoHasher('sha256').update(id).digest('hex');
}
