/** The paths and headers of requests in this dialect: Vertex AI's differ from all others'. */
import type { Quirks } from '../../config/provider-schema.ts';
import type { Target } from '../dialect.ts';

export const defaultVersion = '2023-06-01';

/** Vertex AI's only version so far, which goes into the body and not into a header. */
const vertexVersion = { anthropic_version: 'vertex-2023-10-16' };

/** The version of the dialect that the client's headers name. */
export interface VersionHeaders {
  readonly version: string;
  /** Separated by commas; '' for none. */
  readonly betas: string;
}

/** The parts of a request that depend on its host; the rest of the body is the same everywhere. */
interface HostEndpoint {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Fields of the body that name the model and the version; undefined leaves a field out. */
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
  // Vertex AI calls its models `name@date`, and its own SDK does not escape the `@`.
  const name = encodeURIComponent(model.toWellFormed()).replaceAll('%40', '@');
  const fields = { model: undefined, ...vertexVersion };
  return { path: `/models/${name}:${verb}`, headers: betaHeader(version, quirks), fields };
}

export function countEndpoint(target: RequestTarget, version: VersionHeaders): HostEndpoint {
  const { quirks, upstreamModel: model } = target;
  if (quirks.hosted_by !== 'vertex')
    return standardEndpoint('/messages/count_tokens', target, version);
  // No betas: a count needs none, and Vertex AI refuses some here that it takes with messages
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
  { drop_betas: refused = [] }: Quirks,
): HostEndpoint['headers'] {
  const isAccepted = (beta: string) => !refused.includes(beta) && !refused.includes('*');
  const accepted = betas.split(',').filter(isAccepted).join(',');
  return accepted === '' ? {} : { 'anthropic-beta': accepted };
}

const isPlain = /^[\w.:-]{1,100}$/;
/** Claude Code sends eight. */
const betasMax = 64;

/** The client's version headers, as far as they may be sent to an upstream. */
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
