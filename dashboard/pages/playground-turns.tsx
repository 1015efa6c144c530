import { useState } from 'preact/hooks';
import type { Answer } from '../chat.ts';
import { CopyButton } from '../components/copy.tsx';
import { Form, TextField } from '../components/field.tsx';
import { Busy } from '../components/notes.tsx';
import { count, counted, milliseconds } from '../format.ts';
import { addressOf } from '../route.ts';
import { mayDo, useSession } from '../session.ts';
import type { Message, ToolCall } from '../snippets.ts';

export interface Turn {
  readonly message: Message;
  /** Set if a model said it. */
  readonly answer?: Answer;
  readonly model?: string;
  /** Set on a message that failed: it is shown, but not sent again. */
  readonly isLeftOut?: boolean;
}

interface TurnsProps {
  readonly turns: readonly Turn[];
  readonly running: boolean;
  readonly onResults: (first: Message, more: readonly Message[]) => void;
}

export function Turns({ turns, running, onResults }: TurnsProps) {
  // If the message sent instead of a tool's result failed, the call still waits for its result.
  const last = turns.findLast(({ isLeftOut }) => !isLeftOut);
  const open = running ? [] : (last?.answer?.toolCalls ?? []);
  if (turns.length === 0) {
    return (
      <p class="talk-empty">
        Nothing said yet. Each answer shows its tokens, its times and its price in credits.
      </p>
    );
  }
  return (
    <div class="turns" role="log" aria-label="Messages">
      {turns.map((turn, at) => (
        <TurnView
          key={`${at}-${turn.message.role}`}
          turn={turn}
          isGrowing={running && turn === last}
        />
      ))}
      {running && !last?.answer && <Busy what="Waiting for the first word…" />}
      {open.length > 0 && <ToolResults calls={open} onResults={onResults} />}
    </div>
  );
}

const speakers = {
  system: 'System',
  user: 'You',
  assistant: 'Model',
  tool: 'Tool result',
} as const;

interface TurnProps {
  readonly turn: Turn;
  /** Whether more of the answer may come. */
  readonly isGrowing: boolean;
}

function TurnView({ turn, isGrowing }: TurnProps) {
  const { message, answer, model, isLeftOut } = turn;
  return (
    <article class={`turn ${message.role}`}>
      <h3 class="speaker">{message.role === 'assistant' ? model : speakers[message.role]}</h3>
      {answer?.reasoning && (
        <details>
          <summary>Reasoning</summary>
          <p class="said">{answer.reasoning}</p>
        </details>
      )}
      <Content message={message} />
      {isLeftOut && <p class="hint">not answered, and left out of what follows</p>}
      {message.role === 'assistant' &&
        message.tool_calls?.map((call) => (
          <p key={call.id} class="tool-call">
            calls <code>{call.function.name}</code>
            <code class="arguments">{call.function.arguments}</code>
          </p>
        ))}
      {answer && <Costs answer={answer} isGrowing={isGrowing} />}
    </article>
  );
}

/** A model's words are shown as plain text, never interpreted as markup. */
function Content({ message }: { readonly message: Message }) {
  const { content } = message;
  if (content === null || content === '') return null;
  if (typeof content === 'string') return <p class="said">{content}</p>;
  return (
    <>
      {content.map((part) =>
        part.type === 'text' ? (
          <p key="text" class="said">
            {part.text}
          </p>
        ) : null,
      )}
      <p class="hint">with {counted(content.length - 1, 'image')}</p>
    </>
  );
}

interface CostsProps {
  readonly answer: Answer;
  readonly isGrowing: boolean;
}

/** An answer that was stopped or broke off has a cost too, which only its receipt knows. */
function Costs({ answer, isGrowing }: CostsProps) {
  const session = useSession();
  const { text, usage, firstTokenMs, totalMs, finishReason, requestId } = answer;
  const metrics = [
    usage && `${count(usage.prompt_tokens)} → ${count(usage.completion_tokens)} tokens`,
    firstTokenMs !== null && `first word ${milliseconds(Math.round(firstTokenMs))}`,
    `${milliseconds(Math.round(totalMs))} in all`,
    finishReason && finishReason !== 'stop' && finishReason.replaceAll('_', ' '),
    finishReason === null && !isGrowing && 'cut short',
  ].filter((metric) => typeof metric === 'string');
  return (
    <p class="costs">
      {usage?.cost !== undefined && <b>{counted(usage.cost, 'credit')}</b>}
      {metrics.map((metric) => (
        <span key={metric}>{metric}</span>
      ))}
      {mayDo(session, 'customer') && !isGrowing && (
        <a href={addressOf('logs', { request: requestId })}>receipt</a>
      )}
      {text !== '' && <CopyButton text={text} label="the answer" />}
    </p>
  );
}

interface ToolResultsProps {
  readonly calls: readonly ToolCall[];
  readonly onResults: TurnsProps['onResults'];
}

/** The playground runs no tools: the user types what they would have answered. */
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
        Send the result
      </button>
    </Form>
  );
}
