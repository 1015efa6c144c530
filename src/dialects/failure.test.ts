import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../tests/support/read-result.ts';
import { failureInside, readAnswer, readErrorObject, readFailure } from './failure.ts';

const now = Date.parse('2026-10-01T12:00:00Z');
const fail = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  readFailure(
    status,
    typeof body === 'string' ? body : JSON.stringify(body),
    new Headers(headers),
    now,
  );

describe('readFailure returns the message for', () => {
  const cases: Record<string, [unknown, string]> = {
    'an object': [{ error: { message: 'It broke.' } }, 'It broke.'],
    'a string in error': [{ code: 'x', error: 'It broke.' }, 'It broke.'],
    'a flat body': [{ object: 'error', message: 'It broke.' }, 'It broke.'],
    'a string in detail': [{ detail: 'It broke.' }, 'It broke.'],
    'a list of details with paths': [
      { detail: [{ loc: ['body', 'messages', 0, 'name'], msg: 'Field required', type: 't' }] },
      'messages[0].name: Field required',
    ],
    'a list of details, omitting an invalid path': [
      { detail: [{ loc: ['body', 'what was written'], msg: 'It broke.', type: 't' }] },
      'It broke.',
    ],
    'a list below a heading': [
      { detail: 'Validation Error', errors: [{ loc: ['body', 'stop'], msg: 'Too short.' }] },
      'Validation Error: stop: Too short.',
    ],
    'fields below a heading': [
      { title: 'Invalid data.', errors: { stop: ['The stop field is too short.'] } },
      'Invalid data. The stop field is too short.',
    ],
    'a list that repeats the heading': [
      { error: { code: 400, message: 'It broke.', errors: [{ message: 'It broke.' }] } },
      'It broke.',
    ],
    'a list of objects': [[{ error: { message: 'It broke.' } }], 'It broke.'],
    'a list of errors': [{ errors: [{ message: 'It broke.', code: 5006 }] }, 'It broke.'],
    'an error quoted as text': [
      { error: { message: '{\n "error": {"code": 400, "message": "It broke."}\n}\n' } },
      'It broke.',
    ],
    'an error quoted next to a message': [
      { error: { message: 'Failed.', metadata: { raw: '{"error":{"message":"It broke."}}' } } },
      'It broke.',
    ],
    'a message next to a quoted page': [
      { error: { message: 'It broke.', metadata: { raw: '<html></html>' } } },
      'It broke.',
    ],
    'a bare JSON string': ['"It broke."', 'It broke.'],
    'plain text': ['It broke.\n', 'It broke.'],
    'the title of a page': [
      '<!doctype html><html><head><title>502 Bad\n Gateway</title></head><body>x</body></html>',
      '502 Bad Gateway',
    ],
    'a page without a title': ['<html><body><h1>It broke.</h1></body></html>', 'It broke.'],
    'an unknown shape': [
      { fault: { detail: { errorcode: 'steps.Q' }, faultstring: 'It broke in two.' } },
      'It broke in two.',
    ],
    'no body at all': ['', 'HTTP 500 with no error message.'],
    'an empty object': [{}, 'HTTP 500 with no error message.'],
    'an empty error': [{ error: {} }, 'HTTP 500 with no error message.'],
    'an empty string in error': [{ error: '' }, 'HTTP 500 with no error message.'],
    'an answer whose error is null': [
      { error: null, choices: [{ message: { content: 'Hi there' } }] },
      'HTTP 500 with no error message.',
    ],
    'an empty message with a numeric code': [
      { error: { message: '', code: 500 } },
      'HTTP 500 with no error message.',
    ],
    'only a code': [
      [{ error: { message: null, code: 'model_Broken' } }],
      'HTTP 500 with no error message (code model_broken).',
    ],
    'an empty object, quoted as text': [{ error: '{}' }, 'HTTP 500 with no error message.'],
    'a list that contains an empty object': ['[{}]', 'HTTP 500 with no error message.'],
    'the reason that a proxy reports': [{ status: 500, reason: 'It broke.' }, 'It broke.'],
    'the title of a problem document': [{ type: 'about:blank', title: 'It broke.' }, 'It broke.'],
  };
  test.each(Object.entries(cases))('%s', (_, [body, message]) => {
    expect(fail(500, body).message).toBe(message);
  });

  test('excessively nested text', () => {
    const deep = `{"error":{"details":[${'['.repeat(30_000)}${']'.repeat(30_000)}]}}`;
    expect(fail(429, deep)).toMatchObject({ kind: 'rate_limited', message: deep.slice(0, 300) });
  });

  test('a long message, which it truncates', () => {
    expect(fail(500, { error: { message: 'x'.repeat(5_000) } }).message).toBe('x'.repeat(500));
    expect(fail(500, `<${'<'.repeat(60_000)}`).message.length).toBeLessThanOrEqual(500);
  });
});

describe('readFailure classifies a status without a code', () => {
  test.each([
    [400, 'request'],
    [401, 'credential'],
    [402, 'quota'],
    [403, 'credential'],
    [404, 'request'],
    [405, 'server'],
    [407, 'server'],
    [408, 'timeout'],
    [409, 'server'],
    [413, 'request'],
    [415, 'request'],
    [421, 'server'],
    [422, 'request'],
    [425, 'server'],
    [429, 'rate_limited'],
    [498, 'overloaded'],
    [500, 'server'],
    [502, 'server'],
    [503, 'overloaded'],
    [504, 'timeout'],
    [520, 'server'],
    [524, 'timeout'],
    [529, 'overloaded'],
  ] as const)('%i as %s', (status, kind) => {
    expect(fail(status, { error: { message: 'x', type: 'x', code: null } })).toMatchObject({
      status,
      kind,
    });
  });
});

describe('readFailure classifies by code or message instead of status:', () => {
  const daily = {
    '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
    violations: [{ quotaId: 'GenerateRequestsPerDayPerProjectPerModel' }],
  };
  const badRequest = 'invalid_request_error';
  const countryMessage = 'Gemini API free tier is not available in your country.';
  const cases: Record<string, [number, unknown, string]> = {
    'an empty account': [429, { error: { message: 'x', code: 'insufficient_quota' } }, 'quota'],
    'a balance in the message': [403, { message: 'Your balance is insufficient' }, 'quota'],
    'depleted credits, which Google reports as a rate limit': [
      429,
      { error: { code: 429, message: 'Your prepayment credits are depleted.' } },
      'quota',
    ],
    'a low balance, which Anthropic reports as a bad request': [
      400,
      { error: { message: 'Your credit balance is too low to access the API.', type: badRequest } },
      'quota',
    ],
    'a spending limit, which Anthropic reports as a bad request': [
      400,
      { error: { message: 'You have reached your specified API usage limits.', type: badRequest } },
      'quota',
    ],
    'the spending limit of a workspace': [
      400,
      {
        error: {
          message: 'You have reached your specified workspace API usage limits.',
          type: badRequest,
        },
      },
      'quota',
    ],
    'a disabled Anthropic organization': [
      400,
      { error: { message: 'This organization has been disabled.', type: badRequest } },
      'quota',
    ],
    'a country without access to Google': [
      400,
      { error: { message: 'User location is not supported for the API use.', code: 400 } },
      'quota',
    ],
    'a Google project without billing, after another sentence': [
      400,
      [
        {
          error: {
            message: `${countryMessage} Please enable billing on your project in AI Studio.`,
          },
        },
      ],
      'quota',
    ],
    'a billing message inside a quotation': [
      400,
      { error: { message: 'Bad name "Please enable billing on your project"' } },
      'request',
    ],
    'a billing message in the middle of the text': [
      400,
      { error: { message: 'Bad text: your credit balance is too low', type: badRequest } },
      'request',
    ],
    'an unpaid bill, which Alibaba reports as a bad request': [
      400,
      { error: { message: 'Access denied.', type: 'Arrearage', code: 'Arrearage' } },
      'quota',
    ],
    'an unpaid bill, which Fireworks reports as a failed precondition': [
      412,
      { error: { message: 'Suspended, possibly due to reaching the monthly spending limit.' } },
      'quota',
    ],
    'another failed precondition': [412, { error: { message: 'If-Match' } }, 'request'],
    'a low balance, reported in Chinese': [
      429,
      { error: { code: '1113', message: '余额不足。' } },
      'quota',
    ],
    'a spending limit, named in the details': [
      429,
      { error: { message: 'x', details: { error_code: 'enforced_spend_limit_reached' } } },
      'quota',
    ],
    'a daily quota': [429, { error: { message: 'x', code: 429, details: [daily] } }, 'quota'],
    'a wrong key with status 400': [
      400,
      { code: 'invalid-argument', error: 'Incorrect API key provided. Get one.' },
      'credential',
    ],
    'a wrong key in the details': [
      400,
      [{ error: { code: 400, message: 'x', details: [{ reason: 'API_KEY_INVALID' }] } }],
      'credential',
    ],
    'a filtered prompt with status 403': [
      403,
      { error: { code: 403, message: 'x', metadata: { reasons: ['violence'] } } },
      'request',
    ],
    'an invalid tool call that the model wrote': [
      400,
      { error: { code: 'tool_use_failed' } },
      'server',
    ],
    'a type that is less specific than the status': [
      401,
      { error: { message: 'x', type: 'authentication_error', code: 'invalid_request_error' } },
      'credential',
    ],
  };
  test.each(Object.entries(cases))('%s', (_, [status, body, kind]) => {
    expect(fail(status, body).kind).toBe(kind as never);
  });

  test('ignores request text that the error quotes', () => {
    const message = 'Invalid tool name "Incorrect API key provided"';
    expect(fail(400, { error: { message } }).kind).toBe('request');
  });
});

test.each([
  ['temperature', 'temperature'],
  ['messages[1].content[0].image_url', 'messages[1].content[0].image_url'],
  ['', undefined],
  ['text with spaces', undefined],
  [`a${'.a'.repeat(50)}`, undefined],
  [7, undefined],
])('readFailure reads the param %j as %j', (param, expected) => {
  const body = { error: { message: 'x', param } };
  expect(fail(400, body).param).toBe(expected);
  expect(readErrorObject(body).param).toBe(expected);
});

describe('readFailure reads the error name from the header x-amzn-errortype', () => {
  const address = ':http://internal.amazon.com/coral/com.amazon.bedrock/';
  test.each([
    ['ThrottlingException', 429, 'rate_limited'],
    ['ModelNotReadyException', 429, 'overloaded'],
    ['ServiceQuotaExceededException', 400, 'quota'],
    ['ServiceUnavailableException', 503, 'overloaded'],
    ['ModelTimeoutException', 408, 'timeout'],
    ['ModelErrorException', 424, 'server'],
    ['ValidationException', 400, 'request'],
    ['ResourceNotFoundException', 404, 'request'],
    ['AccessDeniedException', 403, 'credential'],
    ['UnrecognizedClientException', 403, 'credential'],
    ['ExpiredTokenException', 400, 'credential'],
    ['IncompleteSignatureException', 400, 'credential'],
    ['InvalidSignatureException', 403, 'credential'],
  ] as const)('and classifies %s with status %d as %s', (name, status, kind) => {
    for (const errorName of [name, name + address, `com.amazon.coral.service#${name}`]) {
      const failure = fail(status, { message: 'No.' }, { 'x-amzn-errortype': errorName });
      expect(failure).toMatchObject({ kind, status, message: 'No.' });
      expect(fail(status, { __type: errorName, message: 'No.' })).toMatchObject({ kind, status });
    }
  });

  test.each([429, 400])(
    'and classifies a daily token limit with status %d as a quota',
    (status) => {
      const message = 'Too many tokens per day, please wait before trying again.';
      const throttled = { 'x-amzn-errortype': 'ThrottlingException' };
      expect(fail(status, { message }, throttled).kind).toBe('quota');
      const quoted = { message: `The word ${message}` };
      expect(fail(status, quoted, throttled).kind).toBe('rate_limited');
    },
  );

  test('and accepts a capitalized message field', () => {
    expect(fail(403, { Message: 'The key is not valid.' }).message).toBe('The key is not valid.');
  });
});

describe('readFailure reads the wait from', () => {
  const error = (details: unknown) => ({ error: { code: 429, message: 'x', details } });
  const cases: Record<string, [Record<string, string>, unknown, number | null]> = {
    seconds: [{ 'retry-after': '7' }, {}, 7],
    'a date': [{ 'retry-after': 'Thu, 01 Oct 2026 12:00:30 GMT' }, {}, 30],
    'a date that has passed': [{ 'retry-after': 'Thu, 01 Oct 2026 11:00:00 GMT' }, {}, 0],
    'milliseconds, which are more precise': [
      { 'retry-after': '2', 'retry-after-ms': '1250' },
      {},
      1.25,
    ],
    'a reset as a duration': [{ 'x-ratelimit-reset-requests': '6m0s' }, {}, 360],
    'the exhausted limit': [
      {
        'x-ratelimit-reset-requests': '12ms',
        'x-ratelimit-remaining-requests': '99',
        'x-ratelimit-reset-tokens': '1m2.5s',
        'x-ratelimit-remaining-tokens': '0',
      },
      {},
      62.5,
    ],
    'the shorter reset if neither limit is exhausted': [
      { 'x-ratelimit-reset-requests': '1h', 'x-ratelimit-reset-tokens': '2s' },
      {},
      2,
    ],
    'the body': [{}, error([{ '@type': 'x/google.rpc.RetryInfo', retryDelay: '34.4s' }]), 34.4],
    'no header, as null': [{}, {}, null],
    'a negative number, as null': [{ 'retry-after': '-5' }, {}, null],
    'text that is not a date, as null': [{ 'retry-after': 'soon' }, {}, null],
    'a long wait, capped at a day': [{ 'retry-after': '99999999' }, {}, 86_400],
  };
  test.each(Object.entries(cases))('%s', (_, [headers, body, seconds]) => {
    expect(fail(429, body, headers).retryAfterSeconds).toBe(seconds);
  });

  test('a rate limit reset only for rate limits', () => {
    expect(fail(500, {}, { 'x-ratelimit-reset-requests': '6m0s' }).retryAfterSeconds).toBeNull();
  });
});

describe('failureInside recognizes an error that', () => {
  const cases: Record<string, [object, object]> = {
    'is an object': [
      { error: { message: 'It broke.', type: 'server_error' } },
      { kind: 'server', status: null, message: 'It broke.' },
    ],
    'is a string': [{ error: 'It broke.' }, { kind: 'server', message: 'It broke.' }],
    'has a status of its own': [
      { error: { message: 'x', type: 'invalid_request_error', status_code: 400 } },
      { kind: 'request', status: 400 },
    ],
    'has a status as code': [{ choices: [], error: { code: 502, message: 'x' } }, { status: 502 }],
    'has only a type': [
      { error: { message: 'x', type: 'overloaded_error' } },
      { kind: 'overloaded', status: null },
    ],
    'has a quota code': [
      { error: { message: 'x', type: 'insufficient_quota' } },
      { kind: 'quota' },
    ],
    'is flat': [
      { object: 'error', message: 'It broke.', code: 503 },
      { kind: 'overloaded', status: 503, message: 'It broke.' },
    ],
    'is flat, with a text code': [
      { code: 'InvalidParameter', message: 'It broke.' },
      { kind: 'server', status: null, message: 'It broke.' },
    ],
    'has success: false, regardless of its code': [
      { code: 200, msg: 'It broke.', success: false },
      { kind: 'server', message: 'It broke.' },
    ],
    'is in the choice': [
      { choices: [{ error: { code: 504, message: 'It broke.' }, finish_reason: 'error' }] },
      { kind: 'timeout', status: 504, message: 'It broke.' },
    ],
    "is in Groq's fields": [
      { choices: [], x_groq: { id: 'req_1', error: 'over_capacity' } },
      { kind: 'server', message: 'over_capacity' },
    ],
    'is only a finish reason': [
      { choices: [{ delta: {}, finish_reason: 'error' }] },
      { kind: 'server', status: null },
    ],
    'is the finish reason network_error': [
      { choices: [{ delta: {}, finish_reason: 'network_error' }] },
      { kind: 'server', status: null },
    ],
    'is the finish reason abort': [
      { choices: [{ delta: { content: '' }, finish_reason: 'abort' }] },
      { kind: 'server', message: 'The provider ended its response with the finish reason abort.' },
    ],
    'is an uppercase finish reason': [
      { choices: [{ delta: {}, finish_reason: 'MALFORMED_FUNCTION_CALL' }] },
      { kind: 'server', status: null },
    ],
    'is a finish reason with a filter prefix': [
      { choices: [{ index: 0, finish_reason: 'function_call_filter: MALFORMED_FUNCTION_CALL' }] },
      { kind: 'server', status: null },
    ],
    'is the finish reason insufficient_system_resource': [
      { choices: [{ delta: {}, finish_reason: 'insufficient_system_resource' }] },
      { kind: 'overloaded' },
    ],
    'is a MiniMax number without an answer': [
      { choices: null, base_resp: { status_code: 1002, status_msg: 'rate limit exceeded(RPM)' } },
      { kind: 'rate_limited', status: null, message: 'rate limit exceeded(RPM)' },
    ],
    'is a MiniMax number next to a complete answer': [
      {
        choices: [{ delta: {}, finish_reason: 'stop' }],
        base_resp: { status_code: 1027, status_msg: 'output new_sensitive' },
      },
      { kind: 'request', message: 'output new_sensitive' },
    ],
    'is a Baidu number': [
      { error_code: 18, error_msg: 'Open api qps request limit reached' },
      { kind: 'rate_limited', message: 'Open api qps request limit reached' },
    ],
    'is an unknown number': [
      { base_resp: { status_code: 1999, status_msg: 'It broke.' } },
      { kind: 'server', message: 'It broke.' },
    ],
    'has a retry delay': [
      { error: { code: 429, message: 'x', details: [{ retryDelay: '3s' }] } },
      { kind: 'rate_limited', retryAfterSeconds: 3 },
    ],
  };
  test.each(Object.entries(cases))('%s', (_, [chunk, expected]) => {
    expect(failureInside({ ...chunk })).toMatchObject(expected);
  });

  test('has a long finish reason, and truncates its message', () => {
    const choices = [{ delta: {}, finish_reason: `${'x'.repeat(10_000)} error` }];
    expect(failureInside({ choices })?.message).toHaveLength(500);
  });
});

test('failureInside returns undefined for empty errors and success codes', () => {
  const choices = [{ delta: { content: 'a' }, finish_reason: 'stop' }];
  for (const error of [null, '', {}, false, { message: '', code: 0, param: null }]) {
    expect(failureInside({ error, choices })).toBeUndefined();
  }
  expect(failureInside({ choices: [] })).toBeUndefined();
  const base_resp = { status_code: 0, status_msg: 'success' };
  expect(failureInside({ choices, base_resp })).toBeUndefined();
  const successCodes = [0, 200, 20000, '0', '200', 'OK', 'Success'];
  for (const code of successCodes) {
    expect(failureInside({ code, message: 'All is well.' })).toBeUndefined();
  }
  const harmless = [{ success: true }, { type: 'ping' }, { message: '' }, { detail: null }];
  for (const chunk of harmless) expect(failureInside(chunk)).toBeUndefined();
  for (const error_code of [0, 200, null]) {
    expect(failureInside({ choices, error_code, error_msg: '' })).toBeUndefined();
  }
});

const read = (text: string) => readAnswer(text, () => ({ ok: true, value: 'read' }));

describe('readAnswer', () => {
  test('accepts vectors of millions of numbers', () => {
    expect(valueIn(read(`{"data":[[${'1,'.repeat(2_000_000)}1]]}`))).toBe('read');
  });

  /** The outermost bracket counts toward the limit. */
  test.each([
    ['lists', '[],'],
    ['objects', '{},'],
  ])('accepts at most a million %s, because parsing more could take gigabytes', (_, unit) => {
    expect(valueIn(read(`{"data":[${unit.repeat(999_999)}1]}`))).toBe('read');
    const tooMany = read(`{"data":[${unit.repeat(1_000_000)}1]}`);
    expect(failureIn(tooMany)).toMatchObject({ kind: 'malformed' });
  });

  test('accepts an object or a list that contains one', () => {
    expect([valueIn(read('{}')), valueIn(read('[{}]'))]).toEqual(['read', 'read']);
    expect(failureIn(read('[]'))).toMatchObject({ kind: 'malformed' });
  });
});
