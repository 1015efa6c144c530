/**
 * Where Google's own OpenAI-style endpoint puts the signature of a call, for clients that keep
 * calls as they are and drop everything else.
 */
import { fieldsOf, isText } from '../../core/json.ts';
import { markSignature, ownSignature } from '../signature.ts';

/** The field that carries the signature on a call; none for a signature that is not Google's. */
export function signedCall(signature: string): object {
  const own = ownSignature('gemini', signature);
  return own === undefined ? {} : { extra_content: { google: { thought_signature: own } } };
}

export function googleSignature(call: object): string | undefined {
  const { google } = fieldsOf(fieldsOf(call).extra_content);
  const { thought_signature: signature } = fieldsOf(google);
  return isText(signature) ? markSignature('gemini', signature) : undefined;
}
