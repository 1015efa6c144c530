import { describe, expect, test } from 'bun:test';
import { offerCalled } from '../../tests/support/offers.ts';
import { Secret } from '../core/secret.ts';
import type { FailureKind, UpstreamFailure } from '../dialects/dialect.ts';
import { finalError, publicReason, redact, type TriedFailure } from './failure-message.ts';

function failure(kind: FailureKind, more: Partial<UpstreamFailure> = {}): TriedFailure {
  const message = `it was ${kind}.`;
  return { kind, status: null, message, retryAfterSeconds: null, isOwnAccount: false, ...more };
}

describe('finalError', () => {
  test.each<[FailureKind[], number, string, boolean]>([
    [['server'], 502, 'upstream_error', true],
    [['timeout'], 504, 'upstream_error', true],
    [['server', 'timeout'], 504, 'upstream_error', true],
    [['timeout', 'server'], 502, 'upstream_error', true],
    [['credential'], 502, 'upstream_error', false],
    [['quota', 'credential'], 502, 'upstream_error', false],
    [['quota', 'server'], 502, 'upstream_error', true],
    [['rate_limited', 'rate_limited'], 429, 'upstream_error', true],
    [['rate_limited', 'overloaded'], 503, 'upstream_error', true],
    [['rate_limited', 'server'], 502, 'upstream_error', true],
    [['server', 'request', 'timeout'], 400, 'invalid_request_error', false],
    [[], 502, 'upstream_error', false],
  ])('maps the failures %j to status %d', (kinds, status, symbol, retryHelps) => {
    const error = finalError(kinds.map((kind) => failure(kind)));
    expect(Number(error.status)).toBe(status);
    expect(String(error.symbol)).toBe(symbol);
    expect(error.retryHelps).toBe(retryHelps);
  });

  test('uses the shortest Retry-After of the providers, or 5 seconds', () => {
    const waits = [30, 7].map((seconds) => failure('rate_limited', { retryAfterSeconds: seconds }));
    expect(finalError(waits).retryAfterSeconds).toBe(7);
    expect(finalError([failure('rate_limited')]).retryAfterSeconds).toBe(5);
  });

  test('says whose limit it was if every provider answered 429', () => {
    const [first, second] = [30, 7].map((retryAfterSeconds) =>
      failure('rate_limited', { status: 429, retryAfterSeconds }),
    ) as [TriedFailure, TriedFailure];
    expect(finalError([first]).message).toBe(
      'This model is rate limited by its provider, not by this gateway. Try again in 30 s.',
    );
    expect(finalError([first, second]).message).toBe(
      'This model is rate limited by all of its providers, not by this gateway. ' +
        'Try again in 7 s.',
    );
    expect(finalError([first, second]).isProviderLimit).toBe(true);
    // Some providers send 429 if they are overloaded.
    expect(Number(finalError([failure('overloaded', { status: 429 })]).status)).toBe(429);
    expect(finalError([first, failure('overloaded')]).isProviderLimit).toBe(false);
  });

  test('names the parameter that a provider rejected', () => {
    const rejected = failure('request', { param: 'temperature' });
    expect(finalError([failure('server'), rejected])).toMatchObject({ param: 'temperature' });
    expect(finalError([failure('request')]).param).toBeNull();
    expect(finalError([failure('server', { param: 'temperature' })]).param).toBeNull();
  });

  test('counts the attempts', () => {
    expect(finalError([failure('server')]).message).toBe('The provider failed: it was server.');
    const many = [failure('timeout'), failure('server')];
    const both = 'Both attempts failed. Last error: it was server.';
    expect(finalError(many).message).toBe(both);
    const all = 'All 3 attempts failed. Last error: it was server.';
    expect(finalError([...many, failure('server')]).message).toBe(all);
  });
});

test('publicReason does not quote messages about accounts or malformed answers', () => {
  for (const kind of ['credential', 'quota', 'malformed'] as const) {
    expect(publicReason(failure(kind, { message: '<html> key' }))).not.toMatch(/html|key/);
  }
  expect(publicReason(failure('server', { message: 'Disk full.' }))).toBe('Disk full.');
});

describe('redact', () => {
  function offerOf(key: string, upstreamModel: string) {
    return offerCalled(upstreamModel, { apiKey: new Secret(key) });
  }

  test.each([
    ['no vendor/secret-$&-x here, vendor/secret-$&-x', 'no acme/chat here, acme/chat'],
    ['key very-private is bad', 'key [key] is bad'],
    ['Incorrect key sk-proj-Ab12***********cd', 'Incorrect key [key]'],
    ['too large in organization `org_01hx4v9k2m7q8r5t`', 'too large in organization `[account]`'],
    ['limit of org-Ab12Cd34Ef56Gh78 on tokens', 'limit of [account] on tokens'],
    ['project proj_Ab12Cd34Ef56Gh78 has no access', 'project [account] has no access'],
    ['your account org-Ab12Cd34Ef56Gh78<ak-f00dbabe>', 'your account [account]<[key]>'],
    [
      'no `projects/acme-prod-7/locations/eu/models/x`, consumer project_number:4711.',
      'no `projects/[account]/locations/eu/models/x`, consumer project_number:[account].',
    ],
    ['not arn:aws:bedrock:eu-west-1:123456789012:x', 'not arn:aws:bedrock:eu-west-1:[account]:x'],
    [
      'team 0a1b2c3d-0000-4000-8000-00000000000a, API key ID: 0a1b2c3d-0000-4000-8000-00000000000b',
      'team [account], API key ID: [account]',
    ],
    [
      'field org-chart, id 0a1b2c3d-0000-4000-8000-00000000000a',
      'field org-chart, id 0a1b2c3d-0000-4000-8000-00000000000a',
    ],
    ['nothing special', 'nothing special'],
  ])('removes keys, accounts, and the upstream model from: %s', (message, clean) => {
    expect(redact(message, offerOf('very-private', 'vendor/secret-$&-x'))).toBe(clean);
  });

  test.each([
    ['a key that is too lo', 'a key that is too lo'],
    ['Your key is AIzaSyA', 'Your key is AIzaSyA'],
    ['Your key is AIzaSyAb', 'Your key is [key]'],
    ['Your key is AIzaSyAbCdEfGhIjKlM', 'Your key is [key]'],
    ['Your key AIzaSyAb is AIzaSyAbCdEfGhI', 'Your key AIzaSyAb is [key]'],
  ])('removes the beginning of a key at the end of a truncated message: %s', (message, clean) => {
    expect(redact(message, offerOf('AIzaSyAbCdEfGhIjKlMn', 'vendor/model'))).toBe(clean);
  });

  test.each([
    ['Bad key 0a1b2c3d4e for team blue', 'Bad key [key] for team blue'],
    ['Bearer pass-4711 is no Bearer', 'Bearer [key] is no Bearer'],
    ['Set x-tier to true, not 0a1b2c3d4ex', 'Set x-tier to true, not [key]x'],
    ['Team 0a1b2c3d4e-red has 0a1b2c3d4e', 'Team [key] has [key]'],
  ])("removes the secrets in the provider's headers: %s", (message, clean) => {
    const secrets = {
      'api-key': '0a1b2c3d4e',
      authorization: 'Bearer pass-4711',
      'x-tier': 'true',
      'x-team': '0a1b2c3d4e-red',
    };
    const headers = Object.fromEntries(
      Object.entries(secrets).map(([name, value]) => [name, new Secret(value)]),
    );
    expect(redact(message, offerCalled('up', { apiKey: null, headers }))).toBe(clean);
  });

  test.each([
    [
      'http://10.0.0.5:8000/v1',
      'no http://10.0.0.5:8000/v1/chat at http://10.0.0.5:8000/, 10.0.0.5:8000 or 10.0.0.5',
      'no vendor/chat at vendor/, vendor or vendor',
    ],
    [
      'http://gpu-1:8000/v1/',
      'http://gpu-1:8000/v1 on gpu-1:8000 of gpu-1',
      'vendor on vendor of gpu-1',
    ],
    [
      'https://api.vendor.example',
      'see https://docs.vendor.example',
      'see https://docs.vendor.example',
    ],
  ])('replaces the base URL %s and its parts', (baseUrl, message, clean) => {
    expect(redact(message, offerCalled('secret-model', { baseUrl }))).toBe(clean);
  });

  test.each([
    ['up is busy: "up", up-2024 (UP)', 'acme/chat is busy: "acme/chat", acme/chat-2024 (UP)'],
    ['The upstream gave no answer.', 'The upstream gave no answer.'],
    ['Bearer a, key=a', 'Bearer [key], key=[key]'],
  ])('replaces short names only as full words: %s', (message, clean) => {
    expect(redact(message, offerOf('a', 'up'))).toBe(clean);
  });
});
