import { describe, expect, test } from 'bun:test';
import type { ValidationIssue } from '../core/schema.ts';
import { readBootstrap, readSecretKey, readTracing } from './environment.ts';

function read(environment: Record<string, string>) {
  const problems: ValidationIssue[] = [];
  const tracing = readTracing(environment, problems);
  const headers = Object.entries(tracing?.headers ?? {}).map(([name, at]) => [name, at.reveal()]);
  return { tracing, headers: Object.fromEntries(headers), problems };
}

const endpoint = 'http://127.0.0.1:4318';

describe('readTracing', () => {
  test('returns null without an endpoint', () => {
    const { tracing, problems } = read({ OTEL_SERVICE_NAME: 'a', OTEL_EXPORTER_OTLP_HEADERS: '=' });
    expect([tracing, problems]).toEqual([null, []]);
  });

  test('appends the traces path to the endpoint and uses the service name', () => {
    const { tracing } = read({ OTEL_EXPORTER_OTLP_ENDPOINT: `${endpoint}/base/` });
    expect(tracing).toMatchObject({ url: `${endpoint}/base/v1/traces`, serviceName: 'tollgate' });
  });

  test('decodes the configured headers and does not print their values', () => {
    const text = 'x-api-key=abc%3D%2C1, authorization = Basic xyz==,';
    const { headers, tracing, problems } = read({
      OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
      OTEL_EXPORTER_OTLP_HEADERS: text,
    });
    expect(headers).toEqual({ 'x-api-key': 'abc=,1', authorization: 'Basic xyz==' });
    expect(problems).toEqual([]);
    expect(JSON.stringify(tracing)).not.toContain('xyz==');
  });

  test.each(['127.0.0.1:4318', 'grpc://a:4317', 'file:///a', 'not a URL'])(
    'rejects the endpoint %s',
    (url) => {
      const { tracing, problems } = read({ OTEL_EXPORTER_OTLP_ENDPOINT: url });
      expect(tracing).toBeNull();
      expect(problems.map(({ path }) => path)).toEqual(['OTEL_EXPORTER_OTLP_ENDPOINT']);
    },
  );

  test.each(['alone', '=value', 'a b=c', 'a=%zz', 'a=line%0Abreak', 'a='])(
    'rejects the headers %s without repeating them',
    (headers) => {
      const { problems } = read({
        OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
        OTEL_EXPORTER_OTLP_HEADERS: headers,
      });
      expect(problems).toEqual([
        {
          path: 'OTEL_EXPORTER_OTLP_HEADERS',
          message: 'must be name=value pairs separated by commas',
        },
      ]);
    },
  );
});

const variables = [
  ['TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-', 'apiKey'],
  ['TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'sk-mgmt-', 'managementKey'],
  ['TOLLGATE_ADMIN_TOKEN', 'sk-admin-', 'adminToken'],
] as const;

describe.each(variables)('%s', (name, prefix, field) => {
  function read(key: string) {
    const problems: ValidationIssue[] = [];
    const bootstrap = readBootstrap({ [name]: key }, problems);
    return { key: bootstrap[field]?.reveal() ?? null, wrong: problems.map(({ path }) => path) };
  }

  test('accepts a key with its prefix and 32 characters', () => {
    const key = prefix.padEnd(32, 'x');
    expect(read(key)).toEqual({ key, wrong: [] });
  });

  test.each([
    ['31 characters', prefix.padEnd(31, 'x')],
    ['another prefix', 'sk-other-'.padEnd(60, 'x')],
    ['no prefix', 'x'.repeat(60)],
    ['a space inside', `${prefix.padEnd(40, 'x')} x`],
    ['a letter that no header carries', `${prefix.padEnd(40, 'x')}é`],
  ])('rejects a key with %s', (_, key) => {
    expect(read(key)).toEqual({ key: null, wrong: [name] });
  });
});

test('TOLLGATE_BOOTSTRAP_CREDITS accepts whole numbers, including 0', () => {
  const read = (text: string) => {
    const problems: ValidationIssue[] = [];
    const { credits } = readBootstrap({ TOLLGATE_BOOTSTRAP_CREDITS: text }, problems);
    return problems.length > 0 ? 'rejected' : credits;
  };
  expect(['0', '25', '', '9007199254740991'].map(read)).toEqual([0, 25, 10_000_000, 2 ** 53 - 1]);
  for (const text of ['-1', '1.5', '1e3', '9007199254740992']) expect(read(text)).toBe('rejected');
});

test('a secret key needs at least 32 characters', () => {
  const problems: ValidationIssue[] = [];
  const key = 'c4a7d20e9b8f61357f0e2d4c6b8a9513';
  expect(
    readSecretKey('TOLLGATE_SECRET_KEY', { TOLLGATE_SECRET_KEY: key }, problems),
  ).not.toBeNull();
  expect(problems).toEqual([]);
  expect(
    readSecretKey('TOLLGATE_SECRET_KEY', { TOLLGATE_SECRET_KEY: 'x'.repeat(31) }, problems),
  ).toBeNull();
  expect(problems).toHaveLength(1);
});

const weakKeys = [
  'x'.repeat(64),
  '0123456789abcdef0123456789abcdef',
  'abababababababababababababababababac',
  'change-me-to-a-long-and-random-string',
  'your-secret-key-with-32-characters',
];

test.each(weakKeys)('the secret key %s is rejected because it is easy to guess', (value) => {
  const problems: ValidationIssue[] = [];
  const environment = { TOLLGATE_SECRET_KEY: value, TOLLGATE_PREVIOUS_SECRET_KEY: value };
  expect(readSecretKey('TOLLGATE_SECRET_KEY', environment, problems)).toBeNull();
  const message =
    'is easy to guess; generate one, for example with "openssl rand -hex 32". If this one is in ' +
    'use, set TOLLGATE_PREVIOUS_SECRET_KEY to it, and run "tollgate secret rotate" after the start';
  expect(problems).toEqual([{ path: 'TOLLGATE_SECRET_KEY', message }]);
  // Otherwise, a weak key could not be replaced.
  expect(readSecretKey('TOLLGATE_PREVIOUS_SECRET_KEY', environment, problems)).not.toBeNull();
});
