/**
 * Writes the response object: the outcome, and the fields of the request that the response repeats.
 */
import type { FinishReason } from '../../../core/answer.ts';
import type { GatewayError } from '../../../core/errors.ts';
import { costForClient, type SettledUsage, type StreamIdentity } from '../../dialect.ts';
import { answerId } from '../../normalize/responses/identity.ts';
import { writeUsage } from '../usage.ts';
import type { ResponsesBody } from './schema.ts';
import { searchSources } from './searches.ts';
import { type AnyTool, isClientTool } from './tools.ts';

interface Outcome {
  readonly status: 'in_progress' | 'completed' | 'incomplete' | 'failed';
  /** Unix seconds; null unless the response is completed. */
  readonly completed_at: number | null;
  readonly error: object | null;
  readonly incomplete_details: { readonly reason: string } | null;
  readonly output: readonly unknown[];
  readonly usage: object | null;
}

export const inProgress: Outcome = {
  status: 'in_progress',
  completed_at: null,
  error: null,
  incomplete_details: null,
  output: [],
  usage: null,
};

const incompleteReasons: Partial<Record<FinishReason, string>> = {
  length: 'max_output_tokens',
  context: 'max_output_tokens',
  content_filter: 'content_filter',
};

export function isIncomplete(reason: FinishReason): boolean {
  return incompleteReasons[reason] !== undefined;
}

export function ended(
  reason: FinishReason,
  output: readonly unknown[],
  settled: SettledUsage,
): Outcome {
  const { endedAt = Date.now() } = settled;
  const incompleteReason = incompleteReasons[reason];
  return {
    status: incompleteReason === undefined ? 'completed' : 'incomplete',
    completed_at: incompleteReason === undefined ? Math.floor(endedAt / 1000) : null,
    error: null,
    incomplete_details: incompleteReason === undefined ? null : { reason: incompleteReason },
    output,
    usage: writeUsage(settled.usage, costForClient(settled)),
  };
}

/** Codes that clients of the OpenAI API handle. All other errors have the gateway's code. */
const errorCodes: Partial<Record<GatewayError['symbol'], string>> = {
  insufficient_credits: 'insufficient_quota',
  upstream_error: 'server_error',
  service_unavailable: 'server_error',
  internal_error: 'server_error',
};

export function errorCode({ symbol }: GatewayError): string {
  return errorCodes[symbol] ?? symbol;
}

export function failed(error: GatewayError, output: readonly unknown[]): Outcome {
  const { message } = error;
  return { ...inProgress, status: 'failed', error: { code: errorCode(error), message }, output };
}

/** The fields of a request that the response repeats. */
export interface Echo {
  /** The client's `prompt_cache_key`. */
  readonly cacheKey: string | null;
  /** True if the client wants the URLs that a web search found. */
  readonly showsSearchSources: boolean;
  write(identity: StreamIdentity, outcome: Outcome): object;
}

/** Adds the fields of a function that OpenAI's schema requires and the client left out. */
function echoTool(tool: AnyTool): object {
  if (!isClientTool(tool) || tool.type !== 'function') return tool;
  const { description = null, parameters = null, strict } = tool;
  return { ...tool, description, parameters, strict: strict ?? false };
}

export function echoOf(body: ResponsesBody): Echo {
  const echoed = {
    background: false,
    frequency_penalty: 0,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: body.metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    presence_penalty: 0,
    previous_response_id: null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: {
      effort: body.reasoning?.effort ?? null,
      summary: body.reasoning?.summary ?? null,
    },
    safety_identifier: body.safety_identifier ?? null,
    // Only OpenAI has tiers, so a translated answer never comes from the requested one.
    service_tier: 'default',
    // Nothing is stored, even if the client requested it.
    store: false,
    temperature: body.temperature ?? 1,
    text: { ...body.text, format: body.text?.format ?? { type: 'text' } },
    tool_choice: body.tool_choice ?? 'auto',
    tools: (body.tools ?? []).map(echoTool),
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? 1,
    truncation: body.truncation ?? 'disabled',
    user: body.user ?? null,
  };
  return {
    cacheKey: echoed.prompt_cache_key,
    showsSearchSources: body.include?.includes(searchSources) ?? false,
    write: ({ id, created, model }, outcome) => ({
      id: answerId('resp', id),
      object: 'response',
      created_at: created,
      model,
      ...outcome,
      ...echoed,
    }),
  };
}
