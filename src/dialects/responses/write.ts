/** A dialogue as a request to OpenAI's Responses endpoint, which is told to keep nothing. */
import type { Dialogue, JsonWish, Tool } from '../../core/dialogue.ts';
import { cacheMarkNames } from '../ask/cache-marks.ts';
import { effortWord, levelOf, refusesSampling } from '../ask/effort.ts';
import { leaveOut } from '../ask/leave-out.ts';
import { outputLimit } from '../ask/output-limit.ts';
import { functionSchema } from '../ask/tools/function-schema.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { encryptedThoughts } from './request-schema.ts';
import { writeItems } from './write-items.ts';

/** Parameters that this endpoint lacks, or whose answers a dialogue cannot express. */
const unspoken = [
  'stop',
  'n',
  'seed',
  'top_k',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'top_logprobs',
];

/** OpenAI refuses a lower output cap; clients that only test the connection send 1. */
export const outputTokensMin = 16;

/** OpenAI refuses a longer user name; Claude Code sends a long JSON text with ids. */
const userLengthMax = 64;

export function writeRequest(dialogue: Dialogue, target: Target): UpstreamRequest {
  const { quirks, thinking } = target;
  const effort = thinking === null ? undefined : effortWord(levelOf(dialogue.reasoning), quirks);
  const { dialogue: kept, dropped } = leaveOut(dialogue, unspokenIn(dialogue, target, effort));
  const cap = outputLimit(kept.outputTokensMax, target);
  const body = {
    model: target.upstreamModel,
    input: writeItems(kept.turns),
    ...writeTools(kept),
    max_output_tokens: cap === null ? undefined : Math.max(cap, outputTokensMin),
    temperature: kept.sampling.temperature,
    top_p: kept.sampling.topP,
    text: writeText(kept),
    reasoning: thinking === null ? undefined : writeReasoning(kept, effort),
    user: kept.user?.slice(0, userLengthMax) ?? undefined,
    prompt_cache_key: kept.promptCacheKey,
    stream: kept.stream ? true : undefined,
    store: false,
    // Models that do not think refuse this.
    include: thinking === null ? undefined : [encryptedThoughts],
  };
  return {
    path: '/responses',
    body: JSON.stringify(body),
    dropped: cacheMarkNames(dialogue).has('cache_control')
      ? [...dropped, 'cache_control']
      : dropped,
  };
}

function* unspokenIn(
  { reasoning }: Dialogue,
  { quirks, thinking }: Target,
  effort: string | undefined,
): Iterable<string> {
  yield* unspoken;
  yield* quirks.drop_params ?? [];
  if (thinking === null) {
    // To such a model, the wish not to think is no loss.
    if (reasoning?.effort !== 'none') yield 'reasoning';
    return;
  }
  if (refusesSampling(effort, quirks)) yield* ['temperature', 'top_p'];
}

function writeReasoning({ reasoning }: Dialogue, effort: string | undefined) {
  if (reasoning === null) return undefined;
  const isSeen = reasoning.visible && effort !== 'none';
  if (effort === undefined && !isSeen) return undefined;
  return { effort, summary: isSeen ? 'auto' : undefined };
}

function writeTools({ tools, toolChoice, parallelTools }: Dialogue) {
  if (tools.length === 0) return {};
  return {
    tools: tools.map(writeTool),
    tool_choice:
      toolChoice === null || typeof toolChoice === 'string'
        ? (toolChoice ?? undefined)
        : { type: 'function', name: toolChoice.name },
    parallel_tool_calls: parallelTools ?? undefined,
  };
}

/** `strict` is always sent: if it is missing, this endpoint applies the strict rules. */
function writeTool({ name, description, parameters, strict = false }: Tool) {
  return { type: 'function', name, description, parameters: functionSchema(parameters), strict };
}

function writeText({ json, verbosity }: Dialogue) {
  if (json === null && verbosity === undefined) return undefined;
  return { format: json === null ? undefined : writeFormat(json), verbosity };
}

function writeFormat({ name, description, schema, strict }: JsonWish) {
  if (schema === null) return { type: 'json_object' };
  return { type: 'json_schema', name, description, schema, strict };
}
