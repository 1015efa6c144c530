/** A dialogue as a request to Bedrock's Converse. */
import type { Dialogue } from '../../core/dialogue.ts';
import { outputSchema } from '../anthropic/clean-schema.ts';
import { thinkingFor } from '../anthropic/thinking.ts';
import { outputTokensDefault, unspoken } from '../anthropic/write.ts';
import { leaveOut } from '../ask/leave-out.ts';
import { outputLimit } from '../ask/output-limit.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { stopSequencePaths } from './finish.ts';
import { ContentWriter } from './write-content.ts';
import { writeTools } from './write-tools.ts';
import { writeTurns } from './write-turns.ts';

/** Bedrock has no words for these, by the names that clients give them. */
const unspokenHere = [...unspoken, 'parallel_tool_calls', 'user'];

export function writeRequest(asked: Dialogue, target: Target): UpstreamRequest {
  const spoken = leaveOut(asked, [...unspokenHere, ...(target.quirks.drop_params ?? [])]);
  const limit = outputLimit(asked.outputTokensMax, target);
  const thinkingLimit = limit ?? target.modelOutputTokensMax ?? outputTokensDefault;
  const wish = thinkingFor(spoken.dialogue, target, thinkingLimit);
  const sampled = leaveOut(spoken.dialogue, refusedSampling(spoken.dialogue, target, wish.isOn));
  const { dialogue } = sampled;
  const dropped = new Set([...spoken.dropped, ...sampled.dropped]);
  if (wish.isDropped) dropped.add('reasoning');
  const writer = new ContentWriter(target, dropped);
  const { system, messages } = writeTurns(dialogue.turns, writer, target, wish.isOn);
  const { instruction, outputConfig } = writeJson(dialogue, target);
  const instructions = instruction ? [...system, { text: instruction }] : system;
  const body = {
    system: instructions.length > 0 ? instructions : undefined,
    messages,
    inferenceConfig: writeConfig(dialogue, wish.isOn ? thinkingLimit : limit, dropped),
    toolConfig: writeTools(dialogue, writer, target, dropped),
    outputConfig,
    additionalModelRequestFields: filled({
      top_k: dialogue.sampling.topK,
      thinking: wish.thinking,
      ...effortField(wish, target),
    }),
    additionalModelResponseFieldPaths: dialogue.stop.length > 0 ? stopSequencePaths : undefined,
  };
  const model = encodeURIComponent(target.upstreamModel.toWellFormed());
  return {
    path: `/model/${model}/${dialogue.stream ? 'converse-stream' : 'converse'}`,
    body: JSON.stringify(body),
    dropped: [...dropped],
  };
}

/** No model samples while it thinks, and those that can think want one of the two at any time. */
function refusedSampling(
  { sampling }: Dialogue,
  { thinking }: Target,
  isThinking: boolean,
): readonly string[] {
  if (isThinking) return ['temperature', 'top_p', 'top_k'];
  return sampling.temperature === undefined || thinking === null ? [] : ['top_p'];
}

function writeConfig(
  { sampling, stop }: Dialogue,
  maxTokens: number | null,
  dropped: Set<string>,
): object | undefined {
  const { temperature, topP } = sampling;
  const stops = stop.filter((text) => text.trim() !== '');
  if (stops.length < stop.length) dropped.add('stop');
  return filled({
    maxTokens: maxTokens ?? undefined,
    // OpenAI's scale goes on to 2.
    temperature: temperature === undefined ? undefined : Math.min(temperature, 1),
    topP,
    stopSequences: stops.length > 0 ? stops : undefined,
  });
}

/** Models that know efforts and nothing else of thinking take them by OpenAI's name. */
function effortField({ effort }: { effort?: string | undefined }, { thinking }: Target): object {
  if (effort === undefined) return {};
  return thinking === 'effort' ? { reasoning_effort: effort } : { output_config: { effort } };
}

/** Only newer models hold to a schema: where it is not said of one, it is told what to do. */
function writeJson({ json }: Dialogue, { quirks }: Target) {
  if (json === null) return {};
  const only = 'Answer only with a JSON object, without any other text';
  if (json.schema === null) return { instruction: `${only}.` };
  if (quirks.json_schema !== 'native') {
    const schema = JSON.stringify(json.schema);
    return { instruction: `${only}. It satisfies this JSON Schema:\n${schema}` };
  }
  const { name, description } = json;
  const schema = JSON.stringify(outputSchema(json.schema));
  const jsonSchema = { schema, name, description };
  return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } };
}

/** Undefined where there is nothing in it. */
function filled(fields: Readonly<Record<string, unknown>>): object | undefined {
  return Object.values(fields).some((value) => value !== undefined) ? fields : undefined;
}
