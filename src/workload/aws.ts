import type { AwsSource, WorkloadSource } from '../config/workload.ts';
import { putBounded } from '../core/bounded-map.ts';
import { fieldsOf, parseJson } from '../core/json.ts';
import type { AwsKey } from '../core/provider-key.ts';
import { RefreshedCredential, type TemporaryCredential } from './refreshed-credential.ts';
import { callStep, readStep, stepError, timeIn, tokenIn } from './step.ts';

export interface TemporaryAwsKey extends TemporaryCredential {
  readonly key: AwsKey;
}

const kinds: ReadonlySet<string> = new Set<AwsSource['kind']>([
  'web_identity',
  'container',
  'instance',
]);

export function isAws(source: WorkloadSource): source is AwsSource {
  return kinds.has(source.kind);
}

/** Sources come only from the operator's configuration. */
const sourcesMax = 100;
const credentials = new Map<string, RefreshedCredential<TemporaryAwsKey>>();

/** Returns the credential of a source, which all providers and configurations share. */
export function awsCredentialOf(source: AwsSource): RefreshedCredential<TemporaryAwsKey> {
  const id = JSON.stringify(source);
  const known = credentials.get(id);
  if (known) return known;
  const fresh = new RefreshedCredential((signal) => loadAwsKey(source, signal));
  putBounded(credentials, id, fresh, sourcesMax);
  return fresh;
}

/** Requests the temporary credentials of a source. */
export function loadAwsKey(source: AwsSource, signal: AbortSignal): Promise<TemporaryAwsKey> {
  switch (source.kind) {
    case 'web_identity':
      return assumeRole(source, signal);
    case 'container':
      return callContainer(source, signal);
    case 'instance':
      return readInstance(source.url, signal);
  }
}

type SourceOf<Kind> = Extract<AwsSource, { kind: Kind }>;

async function assumeRole(
  { stsUrl, roleArn, sessionName, tokenFile }: SourceOf<'web_identity'>,
  signal: AbortSignal,
): Promise<TemporaryAwsKey> {
  const step = 'Assuming the AWS role with AssumeRoleWithWebIdentity at STS';
  const token = await readStep('Reading the file in AWS_WEB_IDENTITY_TOKEN_FILE', tokenFile);
  const form = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: roleArn,
    RoleSessionName: sessionName,
    WebIdentityToken: token,
  });
  const headers = {
    accept: 'application/xml',
    'content-type': 'application/x-www-form-urlencoded',
  };
  const call = { method: 'POST', url: `${stsUrl}/`, headers, body: form.toString() } as const;
  const { text } = await callStep(step, call, signal, (xml) => elementIn(xml, 'Code'));
  return temporaryKey(step, {
    AccessKeyId: elementIn(text, 'AccessKeyId'),
    SecretAccessKey: elementIn(text, 'SecretAccessKey'),
    Token: elementIn(text, 'SessionToken'),
    Expiration: elementIn(text, 'Expiration'),
  });
}

/** Returns the text of an XML element. The texts that are read here need no escapes. */
function elementIn(xml: string, name: string): string | undefined {
  return new RegExp(`<${name}>\\s*([^<&]*?)\\s*</${name}>`).exec(xml)?.[1];
}

async function callContainer(
  { url, token, tokenFile }: SourceOf<'container'>,
  signal: AbortSignal,
): Promise<TemporaryAwsKey> {
  const step = 'Getting AWS credentials from the container agent';
  const fileStep = 'Reading the file in AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE';
  const sent = tokenFile ? tokenIn(fileStep, await readStep(fileStep, tokenFile)) : token?.reveal();
  const headers: Record<string, string> = sent ? { authorization: sent } : {};
  const call = { method: 'GET', url, headers, isDirect: true } as const;
  const { text } = await callStep(step, call, signal, (json) => fieldsOf(parseJson(json)).code);
  return temporaryKey(step, fieldsOf(parseJson(text)));
}

/** Reads instance metadata with a session token (IMDSv2). Version 1 is never used. */
async function readInstance(url: string, signal: AbortSignal): Promise<TemporaryAwsKey> {
  const tokenStep = 'Getting a session token from the EC2 instance metadata';
  const put = {
    method: 'PUT',
    url: `${url}/latest/api/token`,
    headers: { 'x-aws-ec2-metadata-token-ttl-seconds': '60' },
    isDirect: true,
  } as const;
  const token = tokenIn(tokenStep, (await callStep(tokenStep, put, signal)).text.trim());
  const read = async (step: string, path: string) => {
    const headers = { 'x-aws-ec2-metadata-token': token };
    const address = `${url}/latest/meta-data/iam/security-credentials/${path}`;
    return callStep(step, { method: 'GET', url: address, headers, isDirect: true }, signal);
  };
  const roleStep = 'Reading the role of the EC2 instance from its metadata';
  const [role = ''] = (await read(roleStep, '')).text.trim().split('\n');
  if (!/^[\w+=,.@-]{1,64}$/.test(role)) throw stepError(roleStep, 'its answer is invalid');
  const step = 'Reading the credentials of the EC2 instance from its metadata';
  const fields = fieldsOf(parseJson((await read(step, role)).text));
  const { Code: code = 'Success' } = fields;
  if (code !== 'Success') throw stepError(step, 'its code is not Success');
  return temporaryKey(step, fields);
}

/** The fields as the container agent and the instance metadata name them. */
function temporaryKey(step: string, fields: Readonly<Record<string, unknown>>): TemporaryAwsKey {
  const accessKeyId = tokenIn(step, fields.AccessKeyId);
  const secretAccessKey = tokenIn(step, fields.SecretAccessKey);
  const sessionToken = tokenIn(step, fields.Token);
  return {
    key: { kind: 'aws', accessKeyId, secretAccessKey, sessionToken },
    expiresAt: timeIn(step, fields.Expiration),
    secrets: [accessKeyId, secretAccessKey, sessionToken],
  };
}
