import { useState } from 'preact/hooks';
import type { Answer } from '../chat.ts';
import { CopyButton } from '../components/copy.tsx';
import { Busy } from '../components/feedback.tsx';
import { Form, TextField } from '../components/field.tsx';
import { count, milliseconds, plural } from '../format.ts';
import { urlFor } from '../route.ts';
import { hasScope, useSession } from '../session.ts';
import type { ToolCall } from '../shapes.ts';
import type { Message } from '../snippets.ts';

export interface Turn {
  readonly message: Message;
  /** Set if the message is a model's answer. */
  readonly answer?: Answer;
  readonly model?: string;
  /** True for a message that failed. It's shown but not sent again. */
  readonly isExcluded?: boolean;
}

interface TurnsProps {
  readonly turns: readonly Turn[];
  readonly running: boolean;
  readonly onResults: (first: Message, more: readonly Message[]) => void;
}

export function Turns({ turns, running, onResults }: TurnsProps) {
  // If the user sent a message instead of a tool result and that message failed, the call still
  // needs its result.
  const last = turns.findLast(({ isExcluded }) => !isExcluded);
  const openCalls = running ? [] : (last?.answer?.toolCalls ?? []);
  if (turns.length === 0) {
    return (
      <p class="conversation-empty">
        No messages yet. Each answer shows its tokens, latency, and cost in credits.
      </p>
    );
  }
  return (
    <div class="turns" role="log" aria-label="Messages">
      {turns.map((turn, index) => (
        <TurnView
          key={`${index}-${turn.message.role}`}
          turn={turn}
          isStreaming={running && turn === last}
        />
      ))}
      {running && !last?.answer && <Busy text="Waiting for the first token…" />}
      {openCalls.length > 0 && <ToolResults calls={openCalls} onResults={onResults} />}
    </div>
  );
}

const roleNames = {
  system: 'System',
  user: 'You',
  assistant: 'Model',
  tool: 'Tool result',
} as const;

interface TurnProps {
  readonly turn: Turn;
  readonly isStreaming: boolean;
}

function TurnView({ turn, isStreaming }: TurnProps) {
  const { message, answer, model, isExcluded } = turn;
  return (
    <article class={`turn ${message.role}`}>
      <h3 class="turn-role">{message.role === 'assistant' ? model : roleNames[message.role]}</h3>
      {answer?.reasoning && (
        <details>
          <summary>Reasoning</summary>
          <p class="message-text">{answer.reasoning}</p>
        </details>
      )}
      <Content message={message} />
      {isExcluded && <p class="hint">Failed, so it's excluded from later requests.</p>}
      {message.role === 'assistant' &&
        message.tool_calls?.map((call) => (
          <p key={call.id} class="tool-call">
            Calls <code>{call.function.name}</code>
            <code class="arguments">{call.function.arguments}</code>
          </p>
        ))}
      {answer && <Costs answer={answer} isStreaming={isStreaming} />}
    </article>
  );
}

/** Shows a model's output as plain text, never as markup. */
function Content({ message }: { readonly message: Message }) {
  const { content } = message;
  if (content === null || content === '') return null;
  if (typeof content === 'string') return <p class="message-text">{content}</p>;
  return (
    <>
      {content.map((part) =>
        part.type === 'text' ? (
          <p key="text" class="message-text">
            {part.text}
          </p>
        ) : null,
      )}
      <p class="hint">With {plural(content.length - 1, 'image')}</p>
    </>
  );
}

interface CostsProps {
  readonly answer: Answer;
  readonly isStreaming: boolean;
}

/** Shows tokens, times, and cost. If an answer was interrupted, only its receipt has the cost. */
function Costs({ answer, isStreaming }: CostsProps) {
  const session = useSession();
  const { text, usage, firstTokenMs, totalMs, finishReason, requestId } = answer;
  const metrics = [
    usage && `${count(usage.prompt_tokens)} → ${count(usage.completion_tokens)} tokens`,
    firstTokenMs !== null && `first token ${milliseconds(Math.round(firstTokenMs))}`,
    `${milliseconds(Math.round(totalMs))} total`,
    finishReason && finishReason !== 'stop' && finishReason.replaceAll('_', ' '),
    finishReason === null && !isStreaming && 'incomplete',
  ].filter((metric) => typeof metric === 'string');
  return (
    <p class="costs">
      {usage?.cost !== undefined && <b>{plural(usage.cost, 'credit')}</b>}
      {metrics.map((metric) => (
        <span key={metric}>{metric}</span>
      ))}
      {hasScope(session, 'customer') && !isStreaming && (
        <a href={urlFor('logs', { request: requestId })}>Receipt</a>
      )}
      {text !== '' && <CopyButton text={text} label="answer" />}
    </p>
  );
}

interface ToolResultsProps {
  readonly calls: readonly ToolCall[];
  readonly onResults: TurnsProps['onResults'];
}

/** The playground doesn't run tools, so the user enters their results. */
function ToolResults({ calls, onResults }: ToolResultsProps) {
  const [results, setResults] = useState<Readonly<Record<string, string>>>({});
  const send = () => {
    const [first, ...more] = calls.map(
      ({ id }): Message => ({ role: 'tool', tool_call_id: id, content: results[id] ?? '' }),
    );
    if (first) onResults(first, more);
  };
  return (
    <Form class="form tool-results" onSubmit={send}>
      {calls.map(({ id, function: { name } }) => (
        <TextField
          key={id}
          label={`Result of ${name}`}
          value={results[id] ?? ''}
          onValue={(text) => setResults({ ...results, [id]: text })}
          required
        />
      ))}
      <button type="submit" class="primary">
        Send {calls.length === 1 ? 'result' : 'results'}
      </button>
    </Form>
  );
}
