import { describe, expect, test } from 'bun:test';
import type { ValidationIssue } from '../core/schema.ts';
import { readTracing } from './environment.ts';

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

  test.each(['127.0.0.1:4318', 'grpc://a:4317', 'file:///a', 'not an address'])(
    'to %s are refused',
    (address) => {
      const { tracing, problems } = read({ OTEL_EXPORTER_OTLP_ENDPOINT: address });
      expect(tracing).toBeNull();
      expect(problems.map(({ path }) => path)).toEqual(['OTEL_EXPORTER_OTLP_ENDPOINT']);
    },
  );

  test.each(['alone', '=value', 'a b=c', 'a=%zz', 'a=line%0Abreak', 'a='])(
    'with the headers %s are refused, without repeating them',
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
