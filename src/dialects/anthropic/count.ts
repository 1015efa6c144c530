/** A client's request to count tokens, for an Anthropic-style upstream: edited where needed. */
import { type Fields, fieldsOf, isObject, parseJson } from '../../core/json.ts';
import { closedAccount } from '../answer/failure-kind.ts';
import { type Edits, editBody, leaveOutOf, ourWords } from '../ask/body/edit-body.ts';
import { withDependents } from '../ask/tools/tool-fields.ts';
import type { Count, Counted, CountTarget, TokenCount } from '../count.ts';
import type { UpstreamRequest } from '../dialect.ts';
import { readErrorObject } from '../failure.ts';
import { upstreamDialect } from '../upstreams.ts';
import { spokenIn, systemOf } from './hoist-system.ts';
import { countAt, readVersion, type VersionHeaders } from './hosts.ts';
import { mendMessages } from './mend-messages.ts';
import type { CountRequest } from './messages-request.ts';
import { countSchema } from './messages-schema.ts';
import { anthropicUpstream } from './upstream.ts';

/**
 * Fields about the answer. Clients send the whole request to be counted, but Anthropic refuses
 * such a request if it has one of these fields; its SDK has them for messages only.
 */
const aboutTheAnswer = [
  ...['max_tokens', 'stream', 'temperature', 'top_p', 'top_k', 'stop_sequences', 'metadata'],
  ...['service_tier', 'container', 'inference_geo', 'diagnostics'],
  ...['fallbacks', 'fallback_credit_token', 'thread'],
];

export function anthropicCount(request: CountRequest, headers: Headers): Count {
  const version = readVersion(headers);
  return {
    ask: request.ask,
    isFor: (dialect) => upstreamDialect(dialect) === anthropicUpstream,
    write: (target) => writeCount(request, version, target),
    read,
  };
}

function writeCount(
  { ask, search, body: checked, source }: CountRequest,
  version: VersionHeaders,
  target: CountTarget,
): UpstreamRequest | undefined {
  const { quirks } = target;
  const { path, headers, fields } = countAt(target, version);
  const body: CountRequest['body'] & Fields = checked;
  // Of the gateway's own search, upstreams get another tool than the client wrote, or none.
  const isOurs = ({ type }: Fields) => type === 'web_search';
  if (search?.isVendors === false || body.tools?.some(isOurs)) return undefined;
  const isRemote = ({ url }: { readonly url: string }) => /^https?:/i.test(url);
  if (quirks.remote_images === 'inline' && ask.images.some(isRemote)) return undefined;
  const edits: Edits = { ...fields };
  const refused = withDependents(quirks.drop_params ?? []);
  const unwanted = new Set([...ourWords, ...aboutTheAnswer, ...refused]);
  leaveOutOf(body, unwanted, edits, countSchema.properties);
  const spoken = spokenIn(body.messages, quirks);
  const { messages, lostThoughts } = mendMessages(spoken, new Map());
  if (messages !== body.messages) edits.messages = messages;
  const system = systemOf(body, spoken);
  if (system !== body.system) edits.system = system;
  if (lostThoughts && body.thinking?.type === 'enabled') edits.thinking = undefined;
  return { path, headers, body: editBody({ body, source }, edits) };
}

function read(status: number, text: string): Counted | undefined {
  const answer = parseJson(text);
  if (!isObject(answer)) return undefined;
  if (status === 200) return tokensIn(answer);
  // Any other status is about the account, or comes from a server that cannot count.
  if (status !== 400) return undefined;
  const { kind, message } = readErrorObject(answer);
  return kind === 'request' && !closedAccount.test(message) ? { fault: message } : undefined;
}

function tokensIn({ input_tokens, context_management }: Fields): TokenCount | undefined {
  if (!isCount(input_tokens)) return undefined;
  const { original_input_tokens } = fieldsOf(context_management);
  if (!isCount(original_input_tokens)) return { input_tokens };
  return { input_tokens, context_management: { original_input_tokens } };
}

function isCount(tokens: unknown): tokens is number {
  return typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0;
}
