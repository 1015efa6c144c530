/** Returns the path, headers, and host-specific fields of a request to Anthropic or Vertex AI. */
import type { Quirks } from '../../config/provider-schema.ts';
import type { Target } from '../dialect.ts';

export const defaultVersion = '2023-06-01';

/** Vertex AI's only version so far. It's sent in the body instead of a header. */
const vertexVersion = { anthropic_version: 'vertex-2023-10-16' };

/** The API version and betas in the client's headers. */
export interface VersionHeaders {
  readonly version: string;
  /** Comma-separated; '' for none. */
  readonly betas: string;
}

/** The parts of a request that depend on its host. */
interface HostEndpoint {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The body fields with the model and the version. An undefined field is removed. */
  readonly fields: Readonly<Record<string, string | undefined>>;
}

type RequestTarget = Pick<Target, 'quirks' | 'upstreamModel'>;

export function messagesEndpoint(
  target: RequestTarget,
  isStream: boolean,
  version: VersionHeaders,
): HostEndpoint {
  const { quirks, upstreamModel: model } = target;
  if (quirks.hosted_by !== 'vertex') return standardEndpoint('/messages', target, version);
  const verb = isStream ? 'streamRawPredict' : 'rawPredict';
  // Vertex AI names its models `name@date`, and its own SDK doesn't escape the `@`.
  const name = encodeURIComponent(model.toWellFormed()).replaceAll('%40', '@');
  const fields = { model: undefined, ...vertexVersion };
  return { path: `/models/${name}:${verb}`, headers: betaHeader(version, quirks), fields };
}

export function countEndpoint(target: RequestTarget, version: VersionHeaders): HostEndpoint {
  const { quirks, upstreamModel: model } = target;
  if (quirks.hosted_by !== 'vertex')
    return standardEndpoint('/messages/count_tokens', target, version);
  // Don't send betas: a count needs none, and Vertex AI rejects some that it accepts for messages
  // (anthropics/anthropic-sdk-typescript#1016).
  const fields = { model, ...vertexVersion };
  return { path: '/models/count-tokens:rawPredict', headers: {}, fields };
}

function standardEndpoint(
  path: string,
  target: RequestTarget,
  version: VersionHeaders,
): HostEndpoint {
  const betas = betaHeader(version, target.quirks);
  const headers = { 'anthropic-version': version.version, ...betas };
  return { path, headers, fields: { model: target.upstreamModel } };
}

function betaHeader(
  { betas }: VersionHeaders,
  { drop_betas: unsupported = [] }: Quirks,
): HostEndpoint['headers'] {
  const isAccepted = (beta: string) => !unsupported.includes(beta) && !unsupported.includes('*');
  const accepted = betas.split(',').filter(isAccepted).join(',');
  return accepted === '' ? {} : { 'anthropic-beta': accepted };
}

const isPlain = /^[\w.:-]{1,100}$/;
/** The maximum number of betas that are forwarded. Claude Code sends 8. */
const betasMax = 64;

/** Reads the client's version headers. Drops invalid values, which must not be sent upstream. */
export function readVersion(headers: Headers): VersionHeaders {
  const version = headers.get('anthropic-version')?.trim() ?? '';
  const betas = (headers.get('anthropic-beta') ?? '').split(',').map((beta) => beta.trim());
  return {
    version: isPlain.test(version) ? version : defaultVersion,
    betas: betas
      .filter((beta) => isPlain.test(beta))
      .slice(0, betasMax)
      .join(','),
  };
}
