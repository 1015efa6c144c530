import { readFileSync } from 'node:fs';
import { failureCode } from '../core/errors.ts';
import { fieldsOf, isObject, type JsonObject, parseJson } from '../core/json.ts';
import { isLoopback } from '../core/network-address.ts';
import { isSignedByAws, readProviderKey, regionIn } from '../core/provider-key.ts';
import { Secret } from '../core/secret.ts';
import type { ConfigProblem } from './problems.ts';
import type { ProviderConfig, WorkloadName } from './provider-schema.ts';
import type { Environment } from './read-file.ts';

// Credentials of the machine or container that the gateway runs on. They are found here, when the
// configuration is read, so that a request never searches for them.

/** Where temporary AWS credentials come from. */
export type AwsSource =
  | {
      readonly kind: 'web_identity';
      readonly stsUrl: string;
      readonly roleArn: string;
      readonly sessionName: string;
      readonly tokenFile: string;
    }
  | {
      readonly kind: 'container';
      readonly url: string;
      readonly token: Secret | null;
      /** Read before each call, because its content is replaced. */
      readonly tokenFile: string | null;
    }
  | { readonly kind: 'instance'; readonly url: string };

/** Where Google access tokens come from. */
export type GoogleSource =
  | { readonly kind: 'metadata'; readonly url: string }
  | {
      readonly kind: 'federation';
      readonly stsUrl: string;
      readonly audience: string;
      readonly subjectTokenType: string;
      readonly subject: SubjectToken;
      /** The URL that issues a token of a service account, if that is to be impersonated. */
      readonly impersonationUrl: string | null;
    };

/** Where the token is that Google exchanges. */
interface SubjectToken {
  readonly file: string | null;
  readonly url: string | null;
  readonly headers: Readonly<Record<string, Secret>>;
  /** The field with the token, if the content is JSON. */
  readonly field: string | null;
}

export type WorkloadSource = AwsSource | GoogleSource;

/** A long-lived key is used like one that is written in the file. */
type Found<S = WorkloadSource> = { readonly key: string } | { readonly source: S };

/** Returns what the environment offers, or what is missing, as a phrase after the field's name. */
type Find<S> = (environment: Environment) => Found<S> | string;

const googleFile = 'GOOGLE_APPLICATION_CREDENTIALS';

const awsFinders: ReadonlyMap<string, Find<AwsSource>> = new Map<WorkloadName, Find<AwsSource>>([
  ['aws', findAws],
  ['aws_instance', findInstance],
]);

const finders: Readonly<Record<WorkloadName, Find<WorkloadSource>>> = {
  aws: findAws,
  aws_instance: findInstance,
  google: findGoogle,
  google_metadata: ({ GCE_METADATA_HOST: host }) => ({
    source: { kind: 'metadata', url: `http://${host || 'metadata.google.internal'}` },
  }),
};

const variableOf: Readonly<Record<WorkloadName, string>> = {
  aws: 'AWS_ROLE_ARN',
  aws_instance: 'AWS_EC2_METADATA_SERVICE_ENDPOINT',
  google: googleFile,
  google_metadata: 'GCE_METADATA_HOST',
};

interface Resolved {
  /** The provider, with a long-lived key that was found. */
  readonly config: ProviderConfig;
  readonly workload: WorkloadSource | undefined;
}

/** Finds the credentials that a provider's `credentials` option names. */
export function resolveCredentials(
  path: string,
  config: ProviderConfig,
  builtIn: Pick<ProviderConfig, 'dialect' | 'base_url'> | undefined,
  environment: Environment,
  problems: ConfigProblem[],
): Resolved {
  const { credentials: name, ...rest } = config;
  if (name === undefined) return { config, workload: undefined };
  const withoutKey = { ...rest, api_key: null };
  const target = { ...builtIn, ...config };
  const wrong = misuse(name, target);
  const found = wrong ?? finders[name](environment);
  if (typeof found === 'string') {
    // A command that calls no provider doesn't need the variables.
    const variable = wrong === undefined ? { variable: variableOf[name] } : {};
    problems.push({ path: `${path}.credentials`, message: found, ...variable });
    return { config: withoutKey, workload: undefined };
  }
  if ('key' in found) return { config: { ...rest, api_key: found.key }, workload: undefined };
  const { base_url: baseUrl = '', region } = target;
  if (awsFinders.has(name) && !regionIn(baseUrl) && !region) {
    const message = 'is required: requests are signed for a region, and base_url does not name one';
    problems.push({ path: `${path}.region`, message });
  }
  return { config: withoutKey, workload: found.source };
}

/** Returns why these credentials can't be used at this provider. */
function misuse(name: WorkloadName, config: ProviderConfig): string | undefined {
  const { api_key: key, dialect, base_url: baseUrl = '' } = config;
  if (key !== undefined && key !== null) {
    return "can't be set together with api_key; set only one of them";
  }
  if (config.api_keys) return "can't be set together with api_keys; set only one of them";
  if (awsFinders.has(name)) {
    return isSignedByAws(dialect ?? '') ? undefined : 'is for AWS, so it needs the dialect bedrock';
  }
  // A token gives access to the whole project, so no other server may receive it.
  if (isGoogle(baseUrl) || isLoopback(baseUrl)) return undefined;
  return 'is for Google, so base_url must start with https:// and have a host of googleapis.com';
}

function isGoogle(url: string): boolean {
  const { protocol, hostname = '' } = URL.parse(url) ?? {};
  return protocol === 'https:' && hostname.endsWith('.googleapis.com');
}

const noAws =
  'finds none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_WEB_IDENTITY_TOKEN_FILE and ' +
  'AWS_ROLE_ARN, or AWS_CONTAINER_CREDENTIALS_FULL_URI. On an EC2 instance, use aws_instance';

/** Finds credentials in the order of the AWS SDKs, without the instance's. */
function findAws(environment: Environment): Found<AwsSource> | string {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = environment;
  if (id && secret) {
    const session = environment.AWS_SESSION_TOKEN;
    const key = [id, secret, ...(session ? [session] : [])].join(':');
    const read = readProviderKey(key, 'bedrock');
    return typeof read === 'string' ? `is invalid in AWS_ACCESS_KEY_ID: it ${read}` : { key };
  }
  const source = findWebIdentity(environment) ?? findContainer(environment);
  if (source === undefined) return noAws;
  return typeof source === 'string' ? source : { source };
}

function findInstance({
  AWS_EC2_METADATA_SERVICE_ENDPOINT: url,
}: Environment): Found<AwsSource> | string {
  return { source: { kind: 'instance', url: withoutSlash(url || 'http://169.254.169.254') } };
}

function findWebIdentity(environment: Environment): AwsSource | string | undefined {
  const { AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile, AWS_ROLE_ARN: roleArn } = environment;
  if (!tokenFile) return undefined;
  if (!roleArn) return 'needs AWS_ROLE_ARN, because AWS_WEB_IDENTITY_TOKEN_FILE is set';
  const region = environment.AWS_REGION || environment.AWS_DEFAULT_REGION;
  const domain = region?.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  const regional = region ? `https://sts.${region}.${domain}` : 'https://sts.amazonaws.com';
  const stsUrl = withoutSlash(environment.AWS_ENDPOINT_URL_STS || regional);
  if (!isSafe(stsUrl)) return 'needs an https:// URL in AWS_ENDPOINT_URL_STS';
  const sessionName = environment.AWS_ROLE_SESSION_NAME || 'tollgate';
  return { kind: 'web_identity', stsUrl, roleArn, sessionName, tokenFile };
}

/** The addresses of the agents of ECS and of EKS Pod Identity. */
const containerHosts: ReadonlySet<string> = new Set([
  '169.254.170.2',
  '169.254.170.23',
  '[fd00:ec2::23]',
]);

function findContainer(environment: Environment): AwsSource | string | undefined {
  const { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: path } = environment;
  const { AWS_CONTAINER_CREDENTIALS_FULL_URI: full } = environment;
  const url = path ? `http://169.254.170.2${path}` : full;
  if (!url) return undefined;
  if (!isSafe(url) && !containerHosts.has(URL.parse(url)?.hostname ?? '')) {
    const rule = 'with https://, or with the address of the ECS or EKS agent';
    return `needs a URL ${rule} in AWS_CONTAINER_CREDENTIALS_FULL_URI`;
  }
  const token = environment.AWS_CONTAINER_AUTHORIZATION_TOKEN;
  const tokenFile = environment.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE || null;
  return { kind: 'container', url, token: token ? new Secret(token) : null, tokenFile };
}

function findGoogle(environment: Environment): Found | string {
  const file = environment[googleFile];
  if (!file) return `finds none: set ${googleFile}. On Google Cloud, use google_metadata`;
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    return `can't read the file in ${googleFile} (${failureCode(error) ?? String(error)})`;
  }
  const fields = fieldsOf(parseJson(text));
  if (fields.type === 'external_account') return findFederation(fields);
  const key = readProviderKey(text, '');
  if (typeof key === 'string') return `is invalid in ${googleFile}: the file ${key}`;
  if (key.kind === 'service_account') return { key: text };
  return `needs a service account key or a federation configuration in ${googleFile}`;
}

/** Reads a configuration of workload identity federation. */
function findFederation(fields: JsonObject): Found | string {
  const wrong = (field: string, rule: string) =>
    `needs ${rule} as ${field} of the file in ${googleFile}`;
  const { audience, subject_token_type: subjectTokenType, token_url: stsUrl } = fields;
  const impersonationUrl = fields.service_account_impersonation_url ?? null;
  if (typeof audience !== 'string') return wrong('audience', 'a text');
  if (typeof subjectTokenType !== 'string') return wrong('subject_token_type', 'a text');
  if (typeof stsUrl !== 'string' || !isSafe(stsUrl)) return wrong('token_url', 'an https:// URL');
  if (
    impersonationUrl !== null &&
    !(typeof impersonationUrl === 'string' && isSafe(impersonationUrl))
  )
    return wrong('service_account_impersonation_url', 'an https:// URL');
  const { file, url, headers, format } = fieldsOf(fields.credential_source);
  const isFile = typeof file === 'string';
  if (!isFile && !(typeof url === 'string' && URL.canParse(url))) {
    return wrong('credential_source', 'a file or a url');
  }
  if ('environment_id' in fieldsOf(fields.credential_source)) {
    return wrong('credential_source', 'a file or a url, not a signed AWS request');
  }
  const { type, subject_token_field_name: field } = fieldsOf(format);
  const texts = Object.entries(isObject(headers) ? headers : {});
  const subject: SubjectToken = {
    file: isFile ? file : null,
    url: isFile ? null : String(url),
    headers: Object.fromEntries(texts.map(([name, text]) => [name, new Secret(String(text))])),
    field: type === 'json' ? String(field) : null,
  };
  return {
    source: { kind: 'federation', stsUrl, audience, subjectTokenType, subject, impersonationUrl },
  };
}

/** Tokens are sent only over TLS or within this machine. */
function isSafe(url: string): boolean {
  return URL.canParse(url) && (url.startsWith('https://') || isLoopback(url));
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, '');
}

/** Returns where the object storage's credentials come from, if its URL has `credentials=…`. */
export function findObjectCredentials(
  objectsUrl: string,
  environment: Environment,
): AwsSource | string | null {
  const name = URL.parse(objectsUrl)?.searchParams.get('credentials') ?? null;
  if (name === null) return null;
  const found = awsFinders.get(name)?.(environment);
  if (found === undefined) return 'must have credentials=aws or credentials=aws_instance';
  if (typeof found === 'string') return `with credentials=${name} ${found}`;
  return 'source' in found ? found.source : null;
}
