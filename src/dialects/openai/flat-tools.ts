/** Tools and tool choices that are spelt as the Responses endpoint has them, in chat's words. */
import type {
  ChatBody,
  CustomTool,
  FlatChoice,
  FlatCustomTool,
  FlatTool,
  FunctionTool,
  SentBody,
} from './chat-schema.ts';

type SentTool = NonNullable<SentBody['tools']>[number];

const type = 'function' as const;

/** Every tool in chat's own words; the very same body where each is already. */
export function nestTools(sent: SentBody): ChatBody {
  if (isNested(sent)) return sent;
  const { tools, tool_choice: choice, ...rest } = sent;
  return {
    ...rest,
    tools: tools?.map((tool) => (isFlat(tool) ? nest(tool) : tool)) ?? null,
    tool_choice: isFlatChoice(choice) ? { type, function: { name: choice.name } } : choice,
  };
}

function isNested(sent: SentBody): sent is SentBody & ChatBody {
  return !sent.tools?.some(isFlat) && !isFlatChoice(sent.tool_choice);
}

/** In chat's words, all that a tool or a choice says stands in a field named after its type. */
function isFlat(tool: SentTool): tool is FlatTool | FlatCustomTool {
  return (tool.type === type || tool.type === 'custom') && !(tool.type in tool);
}

function isFlatChoice(choice: SentBody['tool_choice']): choice is FlatChoice {
  return typeof choice === 'object' && choice !== null && !(choice.type in choice);
}

function nest(tool: FlatTool | FlatCustomTool): FunctionTool | CustomTool {
  if (tool.type === type) {
    const { type: _, ...rest } = tool;
    return nestFunction(rest);
  }
  const { type: kind, format, ...rest } = tool;
  const { type: form, ...grammar } = format ?? {};
  return {
    type: kind,
    custom: { ...rest, ...(form === 'grammar' ? { format: { type: form, grammar } } : {}) },
  };
}

/** OpenAI refuses an empty schema. */
const noParameters = { type: 'object', properties: {} };

export function nestFunction({ parameters, ...rest }: Omit<FlatTool, 'type'>): FunctionTool {
  return { type, function: { ...rest, parameters: parameters ?? noParameters } };
}
