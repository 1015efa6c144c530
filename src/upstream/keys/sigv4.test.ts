import { describe, expect, test } from 'bun:test';
import { type Signable, signRequest } from './sigv4.ts';

/** The key, scope, and time of all requests in AWS's published `aws-sig-v4-test-suite`. */
const key = {
  kind: 'aws',
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  sessionToken: null,
} as const;
const scope = { region: 'us-east-1', service: 'service' };
const now = Date.UTC(2015, 7, 30, 12, 36);
const sessionToken =
  'AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSP' +
  'fIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT' +
  '7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlz' +
  'm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==';

const post: Signable = {
  method: 'POST',
  url: new URL('https://example.amazonaws.com/'),
  headers: {},
  body: '',
};
const formType = 'application/x-www-form-urlencoded';
const form = { headers: { 'content-type': formType }, body: 'Param1=value1' };

describe("signRequest matches AWS's published signature", () => {
  test.each([
    [
      'get-vanilla',
      { method: 'GET' },
      'host;x-amz-date',
      '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    ],
    [
      'post-vanilla',
      {},
      'host;x-amz-date',
      '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
    ],
    [
      'post-header-key-sort',
      { headers: { 'my-header1': 'value1' } },
      'host;my-header1;x-amz-date',
      'c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c',
    ],
    [
      'post-x-www-form-urlencoded',
      form,
      'content-type;host;x-amz-date',
      'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
    ],
    [
      'post-x-www-form-urlencoded, as bytes',
      { ...form, body: new TextEncoder().encode(form.body) },
      'content-type;host;x-amz-date',
      'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
    ],
  ])('of %s', async (_, change, names, signature) => {
    expect(await signRequest({ ...post, ...change }, key, scope, now)).toEqual({
      'x-amz-date': '20150830T123600Z',
      authorization:
        'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ' +
        `SignedHeaders=${names}, Signature=${signature}`,
    });
  });

  test('of post-sts-header-before, which includes a session token', async () => {
    const headers = await signRequest(post, { ...key, sessionToken }, scope, now);
    expect(headers['x-amz-security-token']).toBe(sessionToken);
    expect(headers.authorization).toEndWith(
      'SignedHeaders=host;x-amz-date;x-amz-security-token, ' +
        'Signature=85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead',
    );
  });
});

// The expected value was computed with another program that passes AWS's test suite.
test('signRequest percent-encodes reserved characters in the path', async () => {
  const url = new URL("https://example.amazonaws.com/model/a%3A1(b)*!'~/converse");
  const { authorization } = await signRequest({ ...post, url }, key, scope, now);
  expect(authorization).toEndWith(
    'Signature=d010ffa8fc50c28ce4da2305911fbf7d6dee16a86882170c302ee94471c498f1',
  );
});
