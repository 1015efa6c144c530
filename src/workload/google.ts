import type { GoogleSource } from '../config/workload.ts';
import { putBounded } from '../core/bounded-map.ts';
import type { ServerCall } from '../core/call-configured-server.ts';
import { fieldsOf, parseJson } from '../core/json.ts';
import { RefreshedCredential, type TemporaryCredential } from './refreshed-credential.ts';
import { callStep, readStep, stepError, timeIn, tokenIn } from './step.ts';

export interface GoogleToken extends TemporaryCredential {
  readonly text: string;
}

/** Sources come only from the operator's configuration. */
const sourcesMax = 100;
const credentials = new Map<string, RefreshedCredential<GoogleToken>>();

/** Returns the credential of a source, which all providers and configurations share. */
export function googleCredentialOf(source: GoogleSource): RefreshedCredential<GoogleToken> {
  const id = JSON.stringify(source);
  const known = credentials.get(id);
  if (known) return known;
  const fresh = new RefreshedCredential((signal) => loadGoogleToken(source, signal));
  putBounded(credentials, id, fresh, sourcesMax);
  return fresh;
}

/** Requests an access token from a source. */
export async function loadGoogleToken(
  source: GoogleSource,
  signal: AbortSignal,
): Promise<GoogleToken> {
  if (source.kind === 'metadata') return readMetadata(source.url, signal);
  const exchanged = await exchange(source, signal);
  return source.impersonationUrl === null
    ? exchanged
    : impersonate(source.impersonationUrl, exchanged.text, signal);
}

async function readMetadata(url: string, signal: AbortSignal): Promise<GoogleToken> {
  const step = 'Getting an access token from the Google metadata server';
  const call = {
    method: 'GET',
    url: `${url}/computeMetadata/v1/instance/service-accounts/default/token`,
    headers: { 'metadata-flavor': 'Google' },
    isDirect: true,
  } as const;
  const { text, headers } = await callStep(step, call, signal);
  // Another server at this address, such as a captive portal, lacks the header.
  if (headers.get('metadata-flavor') !== 'Google') throw stepError(step, 'its answer is invalid');
  return tokenOf(step, text);
}

const scope = 'https://www.googleapis.com/auth/cloud-platform';

type Federation = Extract<GoogleSource, { kind: 'federation' }>;

async function exchange(source: Federation, signal: AbortSignal): Promise<GoogleToken> {
  const step = "Exchanging the subject token at Google's STS";
  const form = new URLSearchParams({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    audience: source.audience,
    scope,
    subject_token: await subjectToken(source, signal),
    subject_token_type: source.subjectTokenType,
  });
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const call = { method: 'POST', url: source.stsUrl, headers, body: form.toString() } as const;
  const codeIn = (json: string) => fieldsOf(parseJson(json)).error;
  return tokenOf(step, (await callStep(step, call, signal, codeIn)).text);
}

async function subjectToken({ subject }: Federation, signal: AbortSignal): Promise<string> {
  const step = 'Reading the subject token of the credential_source';
  const text = subject.file === null ? await fetchSubject() : await readStep(step, subject.file);
  return subject.field === null
    ? tokenIn(step, text.trim())
    : tokenIn(step, fieldsOf(parseJson(text))[subject.field]);

  async function fetchSubject(): Promise<string> {
    const headers = Object.entries(subject.headers).map(([name, value]) => [name, value.reveal()]);
    const call: ServerCall = {
      method: 'GET',
      url: subject.url ?? '',
      headers: Object.fromEntries(headers),
      isDirect: true,
    };
    return (await callStep(step, call, signal)).text;
  }
}

async function impersonate(url: string, token: string, signal: AbortSignal): Promise<GoogleToken> {
  const step = 'Impersonating the service account with generateAccessToken';
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
  const body = JSON.stringify({ scope: [scope], lifetime: '3600s' });
  const codeIn = (json: string) => fieldsOf(fieldsOf(parseJson(json)).error).status;
  const { text } = await callStep(step, { method: 'POST', url, headers, body }, signal, codeIn);
  const fields = fieldsOf(parseJson(text));
  return temporaryToken(tokenIn(step, fields.accessToken), timeIn(step, fields.expireTime));
}

function tokenOf(step: string, json: string): GoogleToken {
  const { access_token: token, expires_in: seconds } = fieldsOf(parseJson(json));
  if (typeof seconds !== 'number') throw stepError(step, 'its answer is invalid');
  return temporaryToken(tokenIn(step, token), Date.now() + seconds * 1_000);
}

function temporaryToken(text: string, expiresAt: number): GoogleToken {
  return { text, expiresAt, secrets: [text] };
}
