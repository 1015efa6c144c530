import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Ago } from '../components/ago.tsx';
import { CopyButton } from '../components/copy.tsx';
import { Badge, Empty, ErrorNote, Loading, type Tone } from '../components/feedback.tsx';
import { SelectField } from '../components/field.tsx';
import { Card, Page } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { RoutingKeyForm } from '../components/routing-key-form.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { bytes, count } from '../format.ts';
import { useAction, useInterval, useLoad } from '../load.ts';
import { closeOverlay, offsetOf, openOverlay, setQuery, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { Job, JobList as JobPage } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { JobForm } from './job-form.tsx';

const jobsPerPage = 50;
const pollMs = 1_500;

const statuses = [
  'queued',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
] as const satisfies readonly Job['status'][];

const tones: Readonly<Record<string, Tone>> = {
  succeeded: 'good',
  failed: 'bad',
  running: 'accent',
  cancelled: 'warn',
};

const isActive = ({ status }: Job) => status === 'queued' || status === 'running';

export function Jobs() {
  const { routingKey } = useSession();
  return (
    <Page
      title="Jobs"
      lead="Background jobs for long texts and long recordings."
      actions={
        routingKey && <AddButton text="Start a job" onClick={() => openOverlay({ create: '1' })} />
      }
    >
      {routingKey ? <JobsPanel routingKey={routingKey} /> : <RoutingKeyForm purpose="run jobs" />}
    </Page>
  );
}

function JobsPanel({ routingKey }: { readonly routingKey: string }) {
  const route = useRoute();
  const { query } = route;
  const status = query.get('status') ?? '';
  const offset = offsetOf(route);
  const filter = status === '' ? '' : `&status=${encodeURIComponent(status)}`;
  const path = `/v1/jobs?limit=${jobsPerPage}&offset=${offset}${filter}`;
  const loaded = useLoad(path, (signal) => requestJson<JobPage>(path, { key: routingKey, signal }));
  const { data, reload } = loaded;
  useInterval(pollMs, (data?.data ?? []).some(isActive), reload);
  return (
    <>
      <div class="toolbar">
        <SelectField
          label="Status"
          value={status}
          onValue={(value) => setQuery({ status: value, offset: null })}
          options={[['', 'All'], ...statuses.map((name) => [name, name] as const)]}
        />
      </div>
      <Loading loaded={loaded} text="Loading jobs…" />
      {data && <JobList jobs={data.data} routingKey={routingKey} onChange={reload} />}
      <Pager
        label="Pages of jobs"
        offset={offset}
        perPage={jobsPerPage}
        isFull={data?.has_more === true}
        labels={['Newer', 'Older']}
      />
      {query.get('create') === '1' && (
        <JobForm
          routingKey={routingKey}
          onDone={() => {
            closeOverlay('create');
            reload();
          }}
          onClose={() => closeOverlay('create')}
        />
      )}
    </>
  );
}

interface JobListProps {
  readonly jobs: readonly Job[];
  readonly routingKey: string;
  readonly onChange: () => void;
}

function JobList({ jobs, routingKey, onChange }: JobListProps) {
  if (jobs.length === 0) {
    const body = { model: 'demo/speech', input: 'A long text…', voice: 'alloy' };
    return (
      <Empty title="No jobs found" curl={curl('POST', '/v1/jobs', body)}>
        <p>Start a job with the button above or from a terminal.</p>
      </Empty>
    );
  }
  const columns: Column<Job>[] = [
    {
      title: 'Job',
      isHead: true,
      cell: (job) => (
        <span class="two-lines">
          <b>{job.type}</b>
          <small class="id-line">
            <code>{job.id}</code>
            <CopyButton text={job.id} label="job ID" />
          </small>
        </span>
      ),
    },
    { title: 'Model', cell: ({ model }) => <code>{model}</code> },
    { title: 'Status', cell: (job) => <Status job={job} /> },
    { title: 'Result', cell: (job) => <Result job={job} /> },
    { title: 'Started', cell: ({ created_at }) => <Ago iso={created_at} /> },
    numberColumn('Credits', ({ cost }) => count(cost)),
  ];
  const actions: Column<Job> = {
    title: 'Actions',
    cell: (job) =>
      isActive(job) ? <Cancel job={job} routingKey={routingKey} onChange={onChange} /> : '',
  };
  return (
    <Card>
      <Table
        label="Jobs"
        columns={jobs.some(isActive) ? [...columns, actions] : columns}
        rows={jobs}
        rowKey={({ id }) => id}
      />
    </Card>
  );
}

function Status({ job }: { readonly job: Job }) {
  const { status, progress, error } = job;
  return (
    <span class="two-lines">
      <span>
        <Badge tone={tones[status] ?? 'plain'}>{status}</Badge>
      </span>
      {status === 'running' && (
        <>
          <progress
            class="bar good"
            max={1}
            value={progress}
            aria-label={`Progress of ${job.id}`}
          />
          <small>{Math.round(progress * 100)}% done</small>
        </>
      )}
      {error && <small class="bad">{error.message}</small>}
    </span>
  );
}

/** Strips the gateway's public URL from a link, because the dashboard may be at another URL. */
function toLocalUrl(url: string): string {
  const start = url.indexOf('/v1/objects/');
  return start === -1 ? url : url.slice(start);
}

function Result({ job }: { readonly job: Job }) {
  const { output } = job;
  if (!output) return <>–</>;
  const url = toLocalUrl(output.url);
  const isLocal = url.startsWith('/');
  return (
    <span class="two-lines">
      {isLocal && output.content_type.startsWith('audio/') && (
        // The captions are empty, because the user knows the text.
        <audio controls preload="none" src={url} aria-label={`Result of ${job.id}`}>
          <track kind="captions" />
        </audio>
      )}
      <a href={url} target="_blank" rel="noreferrer">
        Open ({bytes(output.bytes)})
      </a>
    </span>
  );
}

function Cancel({ job, routingKey, onChange }: Omit<JobListProps, 'jobs'> & { readonly job: Job }) {
  const action = useAction();
  const [isRequested, setRequested] = useState(false);
  const cancel = () =>
    action.run(async () => {
      setRequested(true);
      await requestJson(`/v1/jobs/${job.id}`, { key: routingKey, method: 'DELETE' });
      onChange();
    });
  return (
    <>
      <button
        type="button"
        class="link"
        aria-label={`Cancel ${job.id}`}
        disabled={isRequested && action.error === undefined}
        onClick={cancel}
      >
        Cancel
      </button>
      <ErrorNote message={action.error} />
    </>
  );
}
