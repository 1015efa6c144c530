import { useState } from 'preact/hooks';
import { isObject, parseJson } from '../../src/core/json.ts';
import { requestData } from '../api.ts';
import { Badge, CircuitState, Empty, ErrorNote } from '../components/feedback.tsx';
import { Form, JsonField, SelectField, TextField } from '../components/field.tsx';
import { Card, Page, Tile, Tiles } from '../components/page.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { count } from '../format.ts';
import { useAction } from '../load.ts';
import { useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type {
  ExcludedOffer,
  ExplainedEndpoint,
  PlannedOffer,
  RouteExplanation,
} from '../shapes.ts';
import { shortPrice } from './model-sheet.tsx';

const inputs: Readonly<Record<ExplainedEndpoint, object>> = {
  'chat/completions': { messages: [{ role: 'user', content: 'Hello!' }] },
  messages: { max_tokens: 1_000, messages: [{ role: 'user', content: 'Hello!' }] },
  responses: { input: 'Hello!' },
  embeddings: { input: 'Hello!' },
  'images/generations': { prompt: 'A toll gate' },
  'audio/speech': { input: 'Hello!', voice: 'alloy' },
};

function sampleBody(endpoint: ExplainedEndpoint, model: string): string {
  return JSON.stringify({ model, ...inputs[endpoint] }, null, 2);
}

/** Shows how a request would be routed, without sending it. */
export function Explain() {
  const [explanation, setExplanation] = useState<RouteExplanation>();
  return (
    <Page
      title="Explain a route"
      lead="Which providers a request would go to, and its highest charge. Nothing is sent."
    >
      <Card>
        <Request onExplanation={setExplanation} />
      </Card>
      {explanation && <Result explanation={explanation} />}
    </Page>
  );
}

interface RequestProps {
  readonly onExplanation: (explanation: RouteExplanation | undefined) => void;
}

function Request({ onExplanation }: RequestProps) {
  const { key, kind } = useSession();
  const model = useRoute().query.get('model') ?? '';
  const [endpoint, setEndpoint] = useState<ExplainedEndpoint>('chat/completions');
  const [tenant, setTenant] = useState('');
  const [keyId, setKeyId] = useState('');
  const [text, setText] = useState(() => sampleBody(endpoint, model));
  const action = useAction();
  const body = parseJson(text);
  const isOperator = kind === 'admin';
  const choose = (chosen: string) => {
    const next = chosen as ExplainedEndpoint;
    setEndpoint(next);
    const current = isObject(body) && typeof body.model === 'string' ? body.model : model;
    setText(sampleBody(next, current));
  };
  const submit = () =>
    action.run(async () => {
      if (!isObject(body)) return;
      onExplanation(undefined);
      const query = new URLSearchParams({ endpoint });
      if (tenant.trim() !== '') query.set('tenant', tenant.trim());
      if (keyId.trim() !== '') query.set('api_key_id', keyId.trim());
      const path = `${isOperator ? '/admin' : ''}/v1/route/explain?${query}`;
      onExplanation(await requestData<RouteExplanation>(path, { key, method: 'POST', body }));
    });
  return (
    <Form onSubmit={submit}>
      <div class="pair">
        <SelectField
          label="Endpoint"
          value={endpoint}
          onValue={choose}
          options={Object.keys(inputs).map((name) => [name, `/v1/${name}`] as const)}
        />
        {isOperator && (
          <TextField label="Tenant ID" placeholder="any" value={tenant} onValue={setTenant} />
        )}
        {isOperator && (
          <TextField label="API key ID" placeholder="any" value={keyId} onValue={setKeyId} />
        )}
      </div>
      <JsonField
        label="Request body"
        rows={10}
        value={text}
        onValue={setText}
        error={isObject(body) ? undefined : 'This is not a valid JSON object.'}
      />
      <ErrorNote message={action.error} />
      <footer class="buttons">
        <button type="submit" class="primary" disabled={action.busy || !isObject(body)}>
          Explain
        </button>
      </footer>
    </Form>
  );
}

const planColumns: readonly Column<PlannedOffer>[] = [
  {
    title: 'Provider',
    isHead: true,
    cell: (offer) => (
      <span class="two-lines">
        <b>{offer.provider}</b>
        {offer.traffic_mode === 'byok' && <Badge tone="accent">BYOK</Badge>}
        {offer.weight !== null && <small>weight {offer.weight}</small>}
      </span>
    ),
  },
  {
    title: 'Model',
    cell: ({ model, upstream_model }) => (
      <span class="two-lines">
        <code>{model}</code>
        {upstream_model !== undefined && <small>{upstream_model}</small>}
      </span>
    ),
  },
  { title: 'Status', cell: ({ circuit }) => <CircuitState circuit={circuit} /> },
  { title: 'Price', cell: (offer) => <span class="price">{shortPrice(offer)}</span> },
  { title: 'Not sent', cell: ({ dropped }) => dropped.join(', ') || '–' },
  numberColumn('Hold', ({ hold }) => count(hold)),
  numberColumn('Highest charge', ({ max_charge }) => count(max_charge)),
];

const excludedColumns: readonly Column<ExcludedOffer>[] = [
  { title: 'Provider', isHead: true, cell: ({ provider }) => <b>{provider ?? 'all'}</b> },
  { title: 'Model', cell: ({ model }) => <code>{model}</code> },
  { title: 'Reason', cell: ({ reason }) => reason },
];

const offerKey = ({
  model,
  provider,
  traffic_mode,
  upstream_model,
}: ExcludedOffer | PlannedOffer) => [model, provider, traffic_mode, upstream_model].join(' ');

const creditsOrNone = (credits: number | null) => (credits === null ? '–' : count(credits));

function Result({ explanation }: { readonly explanation: RouteExplanation }) {
  const { models, plan, excluded, hold, max_charge, error } = explanation;
  return (
    <div role="status">
      {error && (
        <p class="note bad">
          The request would be rejected with status {error.status}: {error.message}
        </p>
      )}
      <Tiles>
        <Tile name="Models" value={models.join(', ') || '–'} />
        <Tile name="Hold" value={creditsOrNone(hold)} below="credits, before it is sent" />
        <Tile name="Highest charge" value={creditsOrNone(max_charge)} below="credits" />
      </Tiles>
      {plan.length === 0 && <Empty title="No provider would be tried" />}
      {plan.length > 0 && (
        <Card title="Providers, in the order they are tried">
          <Table label="Plan" columns={planColumns} rows={plan} rowKey={offerKey} />
        </Card>
      )}
      {excluded.length > 0 && (
        <Card title="Not tried">
          <Table label="Not tried" columns={excludedColumns} rows={excluded} rowKey={offerKey} />
        </Card>
      )}
    </div>
  );
}
