import { useEffect, useRef, useState } from 'preact/hooks';
import { useAutoScroll } from '../auto-scroll.ts';
import { type Answer, chat } from '../chat.ts';
import { ErrorNote, Loading, NoModel } from '../components/feedback.tsx';
import { Icon } from '../components/icon.tsx';
import { Page } from '../components/page.tsx';
import { RoutingKeyForm } from '../components/routing-key-form.tsx';
import { errorMessage, useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { ChatBody, Message } from '../snippets.ts';
import { canChat } from './model-sheet.tsx';
import { type CatalogModel, loadCatalog } from './models.tsx';
import { Composer, imageBytesIn } from './playground-composer.tsx';
import { CopyAs } from './playground-copy.tsx';
import { Settings, useSettings } from './playground-settings.tsx';
import { type Turn, Turns } from './playground-turns.tsx';

export function Playground() {
  const { routingKey } = useSession();
  const loaded = useLoad(`playground models ${routingKey}`, async (signal) => {
    return routingKey ? (await loadCatalog(routingKey, signal)).filter(canChat) : undefined;
  });
  const { data } = loaded;
  return (
    <Page
      title="Playground"
      lead="Chat with any model and see the latency and cost of each answer."
    >
      {!routingKey && <RoutingKeyForm purpose="call models" />}
      {routingKey && <Loading loaded={loaded} text="Loading models…" />}
      {routingKey && data && <PlaygroundPanel models={data} routingKey={routingKey} />}
    </Page>
  );
}

interface PlaygroundPanelProps {
  readonly models: readonly CatalogModel[];
  readonly routingKey: string;
}

interface Conversation {
  readonly turns: readonly Turn[];
  readonly running: boolean;
  readonly error: string | undefined;
  sendMessage(message: Message, more?: readonly Message[]): void;
  /** Requests a new answer to the last message. */
  retry(): void;
  stop(): void;
  clear(): void;
}

function toMessages(turns: readonly Turn[]): Message[] {
  return turns.filter(({ isExcluded }) => !isExcluded).map(({ message }) => message);
}

/** Sets whether later requests exclude the last message, so that they don't fail because of it. */
function withLastExcluded(turns: readonly Turn[], isExcluded: boolean): readonly Turn[] {
  const last = turns.at(-1);
  return last?.message.role === 'user' ? [...turns.slice(0, -1), { ...last, isExcluded }] : turns;
}

/** Conversations by key, kept until sign-out so that users can return from a receipt. */
const conversations = new WeakMap<object, readonly Turn[]>();

/** The conversation isn't in the URL, because a shared link must not contain it. */
function useConversation(
  routingKey: string,
  settings: Omit<ChatBody, 'messages'>,
  opening: readonly Message[],
): Conversation {
  const { keyObject } = useSession();
  const [turns, setTurns] = useState<readonly Turn[]>(
    () => (keyObject && conversations.get(keyObject)) ?? [],
  );
  useEffect(() => void (keyObject && conversations.set(keyObject, turns)), [turns]);
  const [state, setState] = useState({ running: false, error: undefined as string | undefined });
  const controller = useRef<AbortController>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const answer = async (sentTurns: readonly Turn[]) => {
    controller.current = new AbortController();
    const { signal } = controller.current;
    const show = (update: Answer) => setTurns([...sentTurns, turnOf(update, settings.model)]);
    const body = { ...settings, messages: [...opening, ...toMessages(sentTurns)] };
    setTurns(sentTurns);
    setState({ running: true, error: undefined });
    try {
      show(await chat({ key: routingKey, body, signal, onUpdate: show }));
      setState({ running: false, error: undefined });
    } catch (error) {
      setState({ running: false, error: signal.aborted ? undefined : errorMessage(error) });
      if (!signal.aborted) setTurns((shown) => withLastExcluded(shown, true));
    }
  };
  return {
    turns,
    ...state,
    sendMessage(message, more = []) {
      void answer([...turns, ...[message, ...more].map((one) => ({ message: one }))]);
    },
    retry() {
      const sentTurns = turns.at(-1)?.answer ? turns.slice(0, -1) : turns;
      void answer(withLastExcluded(sentTurns, false));
    },
    stop: () => controller.current?.abort(),
    clear() {
      setTurns([]);
      setState({ running: false, error: undefined });
    },
  };
}

function turnOf(answer: Answer, model: string): Turn {
  const { text, toolCalls } = answer;
  const message: Message = {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  return { message, answer, model };
}

function PlaygroundPanel({ models, routingKey }: PlaygroundPanelProps) {
  const settings = useSettings(models);
  const { system } = settings;
  const opening: Message[] = system === '' ? [] : [{ role: 'system', content: system }];
  const conversation = useConversation(routingKey, settings.body, opening);
  const section = useAutoScroll();
  const [draft, setDraft] = useState('Hello!');
  const next: Message[] =
    draft.trim() === '' || conversation.running ? [] : [{ role: 'user', content: draft }];
  const messages = [...opening, ...toMessages(conversation.turns), ...next];
  if (models.length === 0) return <NoModel kind="chat" />;
  return (
    <div class="playground">
      <section ref={section} class="conversation" aria-label="Conversation">
        <Turns
          turns={conversation.turns}
          running={conversation.running}
          onResults={conversation.sendMessage}
        />
        <ErrorNote message={conversation.error} onRetry={conversation.retry} />
        <Composer
          earlierBytes={imageBytesIn(toMessages(conversation.turns))}
          draft={draft}
          setDraft={setDraft}
          conversation={conversation}
          acceptsImages={settings.acceptsImages}
        />
      </section>
      <aside class="settings" aria-label="Settings">
        <Settings models={models} settings={settings} />
        <CopyAs body={{ ...settings.body, messages }} />
        {conversation.turns.length > 0 && (
          <button
            type="button"
            class="secondary"
            onClick={conversation.clear}
            disabled={conversation.running}
          >
            <Icon name="close" />
            Clear conversation
          </button>
        )}
      </aside>
    </div>
  );
}
