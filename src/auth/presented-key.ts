import { GatewayError } from '../core/errors.ts';

/**
 * Finds the key in a request's headers. SDKs disagree on the place: OpenAI's send a bearer token,
 * Anthropic's older ones `x-api-key`, Azure-style clients `api-key`, Google's `x-goog-api-key`.
 */
export function readPresentedKey(headers: Headers): string {
  const authorization = headers.get('authorization');
  const bearer = authorization === null ? null : readBearer(authorization);
  const own = headers.get('x-api-key');
  const azure = headers.get('api-key');
  const google = headers.get('x-goog-api-key');
  // Nearly every request has a bearer token and nothing else.
  if (bearer !== null && own === null && azure === null && google === null) return bearer;
  return soleKey([bearer, own, azure, google]);
}

/** The same key in several headers is one key. */
function soleKey(texts: readonly (string | null)[]): string {
  const candidates = texts.filter((text) => text !== null && text !== '');
  const [first] = candidates;
  if (!first) {
    const message = 'No API key: send it as "Authorization: Bearer <key>".';
    throw new GatewayError('invalid_api_key', message);
  }
  if (candidates.some((text) => text !== first)) {
    const message = 'Two different API keys in one request: send one, or the same in each header.';
    throw new GatewayError('invalid_api_key', message);
  }
  return first;
}

const bearerToken = /^Bearer +\S+$/i;
const emptyBearer = /^(?:Bearer)? *$/i;

function readBearer(value: string): string | null {
  if (bearerToken.test(value)) return value.slice(value.lastIndexOf(' ') + 1);
  // Tools that mean to send only x-api-key often leave an empty bearer behind.
  if (emptyBearer.test(value)) return null;
  const message = 'The Authorization header must read "Bearer <key>".';
  throw new GatewayError('invalid_api_key', message);
}
