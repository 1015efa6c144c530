import type { Prompt, Tool, Turn } from '../../../core/prompt.ts';
import { enforcesStrict, outputSchema, toolSchema } from '../../anthropic/upstream/json-schema.ts';
import { toSupportedPrompt, writeLimits } from '../../anthropic/upstream/parameters.ts';
import { toAlternatingTurns } from '../../anthropic/upstream/request.ts';
import type { Target, UpstreamRequest } from '../../dialect.ts';
import { jsonInstruction } from '../../normalize/requests/generation-options.ts';
import { callsIn } from '../../normalize/requests/tools.ts';
import { type Block, ContentWriter } from './content.ts';
import { stopSequencePaths } from './reader.ts';

// Writes a prompt as a request to Bedrock's Converse API.

/**
 * Parameters that Anthropic supports and Bedrock doesn't. Bedrock has cache points between parts
 * instead of a top-level `cache_control`.
 */
const alsoUnsupported = ['parallel_tool_calls', 'user', 'cache_control'];

export function writeRequest(original: Prompt, target: Target): UpstreamRequest {
  // Models without thinking accept `temperature` together with `top_p`.
  const result = toSupportedPrompt(original, target, {
    alsoUnsupported,
    isSamplingExclusive: target.thinking !== null,
  });
  const { prompt, reasoning, limit, outputTokensMax, dropped } = result;
  const writer = new ContentWriter(target, dropped);
  const { system, messages } = writeTurns(prompt.turns, writer, target, reasoning.isOn);
  const { instruction, outputConfig } = writeJson(prompt, target);
  const instructions = instruction ? [...system, { text: instruction }] : system;
  const body = {
    system: instructions.length > 0 ? instructions : undefined,
    messages,
    inferenceConfig: writeConfig(prompt, reasoning.isOn ? outputTokensMax : limit, dropped),
    toolConfig: writeTools(prompt, writer, target, dropped),
    outputConfig,
    additionalModelRequestFields: definedFields({
      top_k: prompt.sampling.topK,
      thinking: reasoning.thinking,
      ...effortField(reasoning, target),
    }),
    additionalModelResponseFieldPaths: prompt.stop.length > 0 ? stopSequencePaths : undefined,
  };
  const model = encodeURIComponent(target.upstreamModel.toWellFormed());
  return {
    path: `/model/${model}/${prompt.stream ? 'converse-stream' : 'converse'}`,
    body: JSON.stringify(body),
    dropped: [...dropped],
  };
}

function writeConfig(
  prompt: Prompt,
  maxTokens: number | null,
  dropped: Set<string>,
): object | undefined {
  const { temperature, stops } = writeLimits(prompt, dropped);
  return definedFields({
    maxTokens: maxTokens ?? undefined,
    temperature,
    topP: prompt.sampling.topP,
    stopSequences: stops,
  });
}

/** Writes the effort. Models that only have effort levels accept OpenAI's field name. */
function effortField({ effort }: { effort?: string | undefined }, { thinking }: Target): object {
  if (effort === undefined) return {};
  return thinking === 'effort' ? { reasoning_effort: effort } : { output_config: { effort } };
}

/** Writes the JSON format. Only newer models enforce a schema; others get an instruction. */
function writeJson({ json }: Prompt, { quirks }: Target) {
  if (json === null) return {};
  if (json.schema === null || quirks.json_schema !== 'native') {
    return { instruction: jsonInstruction(json.schema) };
  }
  const { name, description } = json;
  const schema = JSON.stringify(outputSchema(json.schema));
  const jsonSchema = { schema, name, description };
  return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } };
}

/** Returns the fields, or undefined if none is set. */
function definedFields(fields: Readonly<Record<string, unknown>>): object | undefined {
  return Object.values(fields).some((value) => value !== undefined) ? fields : undefined;
}

function writeTurns(
  turns: readonly Turn[],
  writer: ContentWriter,
  target: Target,
  isThinking: boolean,
) {
  return toAlternatingTurns<Block>(turns, {
    text: (part) => writer.text(part),
    assistantPart: (part) => writer.assistantPart(part),
    userPart: (part) => writer.userPart(part),
    arrange: (content) => introduceDocuments(resultsFirst(content)),
    allowsInlineSystem: false,
    needsUserTurn: isThinking || target.thinking === 'adaptive',
  });
}

/** Moves all results of a turn to the front, each with the cache point that follows it. */
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const isOfResult = content.map(
    (block, index) =>
      'toolResult' in block ||
      ('cachePoint' in block && 'toolResult' in (content[index - 1] ?? {})),
  );
  const results = content.filter((_, index) => isOfResult[index]);
  return [...results, ...content.filter((_, index) => !isOfResult[index])];
}

/** Adds text to a message that has documents but no text, because Bedrock would reject it. */
function introduceDocuments(content: readonly Block[]): readonly Block[] {
  if (!content.some((block) => 'document' in block)) return content;
  if (content.some((block) => 'text' in block)) return content;
  return [...content, { text: 'See the attached document.' }];
}

function writeTools(
  prompt: Prompt,
  writer: ContentWriter,
  { quirks }: Target,
  dropped: Set<string>,
): object | undefined {
  const { toolChoice } = prompt;
  const called = [...new Set(callsIn(prompt.turns).map(({ name }) => name))];
  const forbidsCalls = toolChoice === 'none';
  // Bedrock has no choice `none`, but a model without tools can't call any.
  if (forbidsCalls && called.length === 0) return undefined;
  // Bedrock rejects a conversation that has calls but no tools. If the client sent no tools,
  // declare those that were called.
  const tools: readonly Tool[] =
    prompt.tools.length > 0 ? prompt.tools : called.map((name) => ({ name, parameters: null }));
  if (tools.length === 0) return undefined;
  if (forbidsCalls && prompt.tools.length > 0) dropped.add('tool_choice');
  // The same models support strict tools and structured output.
  const isStrict = enforcesStrict(tools, quirks.json_schema === 'native', dropped);
  return {
    tools: tools.flatMap((tool) =>
      writer.withCachePoint({ toolSpec: writeTool(tool, isStrict) }, tool),
    ),
    toolChoice: writeChoice(toolChoice),
  };
}

function writeTool(tool: Tool, isStrict: boolean): object {
  const { name, description, strict } = tool;
  // Nova rejects a schema with `$schema` or `$id`.
  const { $schema: _, $id: __, ...json } = toolSchema(tool, isStrict);
  return {
    name,
    description: description || undefined,
    inputSchema: { json },
    strict: (isStrict && strict) || undefined,
  };
}

/** Omits `auto`, which is the default, because not every model accepts a choice. */
function writeChoice(choice: Prompt['toolChoice']): object | undefined {
  if (choice === 'required') return { any: {} };
  return typeof choice === 'object' && choice ? { tool: { name: choice.name } } : undefined;
}
