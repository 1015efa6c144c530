import type { JobStatus } from '../../jobs/job.ts';

/** The tables of jobs as queries see them; see schema.ts. */

export interface JobsTable {
  id: string;
  tenant_id: string;
  key_id: string;
  model: string;
  request: string;
  input_key: string;
  input_bytes: number;
  metadata: string;
  webhook_url: string | null;
  status: JobStatus;
  attempts: number;
  /** The claim that the job belongs to while it runs. */
  lease: string | null;
  /** When a worker may take it; null once it has ended. */
  claimable_at: number | null;
  pieces_done: number;
  pieces_total: number | null;
  cost: number;
  units: number;
  output_key: string | null;
  output_bytes: number | null;
  failure: string | null;
  created_at: number;
  started_at: number | null;
  completed_at: number | null;
  expires_at: number | null;
}

export interface JobTurnsTable {
  tenant_id: string;
  served_at: number;
}

export interface JobPiecesTable {
  job_id: string;
  number: number;
  object_key: string;
  cost: number;
  units: number;
  provider: string;
}

export interface JobObjectsTable {
  key: string;
  job_id: string;
  /** Null while the object is the input of a job that has not ended. */
  delete_at: number | null;
}

export interface WebhooksTable {
  id: string;
  job_id: string;
  tenant_id: string;
  url: string;
  event: string;
  attempts: number;
  due_at: number;
  created_at: number;
}
