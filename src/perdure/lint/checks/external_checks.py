"""Checks for access to the outside world: anything that a workflow reads from the machine and that differs on replay.

The tables list the full names that a workflow must not call or read, by rule. A name that ends with `.*` covers all functions of a module; classes are listed
one by one, as many are harmless (errors, constants, settings).
"""

import ast
from collections.abc import Iterator
from itertools import chain

from perdure.lint.checks import Violation
from perdure.lint.name_resolution import Definition
from perdure.lint.workflow_code import WorkflowFunction, expression_text

_CALLS = {
    "PD101": """
        datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today
        time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns time.process_time
        time.process_time_ns asyncio.AbstractEventLoop().time time.thread_time time.clock_gettime time.clock_gettime_ns timeit.default_timer
        pendulum.now pendulum.today pendulum.tomorrow pendulum.yesterday arrow.now arrow.utcnow whenever.Instant.now
        django.utils.timezone.now django.utils.timezone.localtime
        """,
    "PD102": "time.sleep trio.sleep anyio.sleep gevent.sleep eventlet.sleep curio.sleep",
    "PD103": """
        asyncio.AbstractEventLoop().call_later asyncio.AbstractEventLoop().call_at
        asyncio.timeouts.timeout async_timeout.timeout anyio.fail_after anyio.move_on_after trio.fail_after trio.move_on_after
        """,
    "PD104": "datetime.date.fromtimestamp time.tzset tzlocal.get_localzone dateutil.tz.tzlocal",
    "PD105": "random.* numpy.random.* random.SystemRandom().* faker.Faker",
    "PD106": "os.urandom os.getrandom secrets.* random.SystemRandom ssl.RAND_bytes",
    "PD107": "uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 ulid.new ulid.ULID shortuuid.uuid nanoid.generate cuid.cuid",
    "PD108": "os.getenv os.getenvb os.putenv os.unsetenv dotenv.load_dotenv",
    "PD109": """
        os.getpid os.getppid os.getpgid os.getlogin os.getuid os.geteuid os.getgid os.cpu_count os.process_cpu_count os.getloadavg os.uname os.times
        platform.* getpass.getuser socket.gethostname socket.getfqdn uuid.getnode threading.get_ident threading.get_native_id
        threading.current_thread threading.active_count multiprocessing.current_process multiprocessing.cpu_count
        tracemalloc.get_traced_memory gc.collect gc.get_objects gc.get_count resource.getrusage sys.getrefcount locale.getlocale
        """,
    "PD110": """
        builtins.open io.open codecs.open gzip.open bz2.open lzma.open zipfile.ZipFile tarfile.open tempfile.* tempfile.TemporaryFile
        tempfile.NamedTemporaryFile tempfile.TemporaryDirectory tempfile.SpooledTemporaryFile shutil.* glob.glob glob.iglob linecache.getline
        fileinput.input shelve.open mmap.mmap aiofiles.open anyio.open_file pandas.read_csv pandas.read_json pandas.read_parquet pandas.read_excel
        os.open os.read os.write os.close os.fdopen os.listdir os.scandir os.walk os.fwalk os.mkdir os.makedirs os.remove os.unlink os.rmdir os.removedirs
        os.rename os.renames os.replace os.link os.symlink os.readlink os.stat os.lstat os.utime os.chmod os.chown os.chdir os.getcwd os.access
        os.truncate os.mkfifo os.fsync os.statvfs
        os.path.exists os.path.lexists os.path.isfile os.path.isdir os.path.islink os.path.getsize os.path.getmtime os.path.getctime os.path.getatime
        os.path.abspath os.path.realpath os.path.expanduser os.path.samefile
        pathlib.Path().open pathlib.Path().read_text pathlib.Path().read_bytes pathlib.Path().write_text pathlib.Path().write_bytes
        pathlib.Path().exists pathlib.Path().is_file pathlib.Path().is_dir pathlib.Path().is_symlink pathlib.Path().stat pathlib.Path().lstat
        pathlib.Path().iterdir pathlib.Path().glob pathlib.Path().rglob pathlib.Path().walk pathlib.Path().mkdir pathlib.Path().rmdir
        pathlib.Path().unlink pathlib.Path().rename pathlib.Path().replace pathlib.Path().touch pathlib.Path().chmod pathlib.Path().symlink_to
        pathlib.Path().hardlink_to pathlib.Path().expanduser pathlib.Path().resolve pathlib.Path().absolute pathlib.Path().samefile
        pathlib.Path.cwd pathlib.Path.home
        """,
    "PD111": """
        requests.get requests.post requests.put requests.patch requests.delete requests.head requests.options requests.request requests.Session
        requests.Session().* httpx.get httpx.post httpx.put httpx.patch httpx.delete httpx.head httpx.options httpx.request httpx.stream
        httpx.Client httpx.AsyncClient httpx.Client().* httpx.AsyncClient().* aiohttp.ClientSession aiohttp.request aiohttp.ClientSession().*
        urllib.request.urlopen urllib.request.urlretrieve urllib.request.build_opener urllib3.PoolManager urllib3.request
        http.client.HTTPConnection http.client.HTTPSConnection xmlrpc.client.ServerProxy
        socket.socket socket.create_connection socket.create_server socket.socketpair socket.getaddrinfo socket.gethostbyname socket.gethostbyname_ex
        socket.gethostbyaddr socket.getnameinfo smtplib.SMTP smtplib.SMTP_SSL smtplib.LMTP aiosmtplib.send ftplib.FTP ftplib.FTP_TLS
        imaplib.IMAP4 imaplib.IMAP4_SSL poplib.POP3 poplib.POP3_SSL telnetlib.Telnet websockets.connect websocket.create_connection
        paramiko.SSHClient asyncssh.connect grpc.insecure_channel grpc.secure_channel grpc.aio.insecure_channel grpc.aio.secure_channel
        boto3.client boto3.resource boto3.Session openai.OpenAI openai.AsyncOpenAI anthropic.Anthropic anthropic.AsyncAnthropic
        asyncio.open_connection asyncio.open_unix_connection asyncio.start_server asyncio.start_unix_server
        asyncio.AbstractEventLoop().getaddrinfo asyncio.AbstractEventLoop().create_connection asyncio.AbstractEventLoop().create_server
        asyncio.AbstractEventLoop().create_datagram_endpoint asyncio.AbstractEventLoop().sock_connect asyncio.AbstractEventLoop().sock_recv
        asyncio.AbstractEventLoop().sock_sendall
        """,
    "PD112": """
        sqlite3.connect aiosqlite.connect asyncpg.connect asyncpg.create_pool psycopg.connect psycopg.AsyncConnection.connect psycopg2.connect
        pymysql.connect MySQLdb.connect mysql.connector.connect aiomysql.connect oracledb.connect pyodbc.connect duckdb.connect
        pymongo.MongoClient motor.motor_asyncio.AsyncIOMotorClient redis.Redis redis.from_url redis.asyncio.Redis redis.asyncio.from_url
        sqlalchemy.create_engine sqlalchemy.ext.asyncio.create_async_engine sqlalchemy.orm.Session elasticsearch.Elasticsearch
        perdure.Client perdure.AsyncClient perdure.sync_client.Client perdure.async_client.AsyncClient
        """,
    "PD113": """
        subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.getoutput subprocess.getstatusoutput subprocess.Popen
        os.system os.popen os.fork os.forkpty os.kill os.killpg os.wait os.waitpid os.posix_spawn os.startfile os.execv os.execve os.execvp os.execl os.execlp
        os.spawnv os.spawnl os.spawnvp os.spawnlp pty.spawn webbrowser.open pexpect.spawn
        asyncio.create_subprocess_exec asyncio.create_subprocess_shell asyncio.subprocess.create_subprocess_exec asyncio.subprocess.create_subprocess_shell
        asyncio.AbstractEventLoop().subprocess_exec asyncio.AbstractEventLoop().subprocess_shell
        """,
    "PD114": """
        threading.Thread threading.Timer _thread.start_new_thread multiprocessing.Process multiprocessing.Pool multiprocessing.Manager
        multiprocessing.pool.ThreadPool concurrent.futures.ThreadPoolExecutor concurrent.futures.ProcessPoolExecutor
        concurrent.futures.thread.ThreadPoolExecutor concurrent.futures.process.ProcessPoolExecutor
        asyncio.to_thread asyncio.AbstractEventLoop().run_in_executor asyncio.AbstractEventLoop().set_default_executor
        asyncio.AbstractEventLoop().call_soon_threadsafe asyncio.run_coroutine_threadsafe
        anyio.to_thread.run_sync anyio.to_process.run_sync anyio.from_thread.run trio.to_thread.run_sync starlette.concurrency.run_in_threadpool
        joblib.Parallel
        """,
    "PD115": """
        asyncio.run asyncio.Runner asyncio.new_event_loop asyncio.set_event_loop asyncio.AbstractEventLoop().run_until_complete
        asyncio.AbstractEventLoop().run_forever asyncio.AbstractEventLoop().stop asyncio.AbstractEventLoop().set_debug
        asyncio.AbstractEventLoop().set_exception_handler asyncio.AbstractEventLoop().shutdown_asyncgens
        asyncio.AbstractEventLoop().shutdown_default_executor asyncio.AbstractEventLoop().add_reader asyncio.AbstractEventLoop().add_writer
        asyncio.AbstractEventLoop().add_signal_handler asyncio.AbstractEventLoop().remove_signal_handler
        anyio.run trio.run uvloop.run uvloop.install nest_asyncio.apply signal.signal signal.alarm signal.setitimer atexit.register
        """,
    "PD116": "builtins.input getpass.getpass click.prompt click.confirm select.select",
    "PD117": """
        builtins.print pprint.pprint pprint.pp rich.print click.echo warnings.warn
        logging.debug logging.info logging.warning logging.error logging.exception logging.critical logging.log
        logging.getLogger().debug logging.getLogger().info logging.getLogger().warning logging.getLogger().error logging.getLogger().exception
        logging.getLogger().critical logging.getLogger().log structlog.get_logger().*
        """,
    "PD118": "sys.exit builtins.exit builtins.quit os._exit os.abort",
    "PD203": "asyncio.AbstractEventLoop().set_task_factory asyncio.create_eager_task_factory asyncio.eager_task_factory",
    "PD204": "builtins.id builtins.hash",
}
_READS = {
    "PD108": "os.environ os.environb",
    "PD109": "sys.argv sys.path sys.modules sys.platform sys.version sys.version_info sys.executable",
    "PD116": "sys.stdin",
    "PD117": "sys.stdout sys.stderr",
}

CALLS = {name: code for code, names in _CALLS.items() for name in names.split() if not name.endswith(".*")}
"""The code of each function that is not to be called."""

FAMILIES = {name.removesuffix(".*"): code for code, names in _CALLS.items() for name in names.split() if name.endswith(".*")}
"""The code of each module, or each class with `()`, of which no function is to be called."""

READS = {name: code for code, names in _READS.items() for name in names.split()}
"""The code of each variable that is not to be read."""


DOES = {
    "PD101": "reads the clock of the machine",
    "PD102": "waits in memory, and only until the next restart",
    "PD103": "sets a timer that is in no log",
    "PD104": "depends on the time zone of the machine",
    "PD105": "draws a number that replay can't draw again",
    "PD106": "reads the randomness of the machine",
    "PD107": "makes an id that replay can't make again",
    "PD108": "reads the environment, which differs between workers and deploys",
    "PD109": "depends on the process and the machine that run it",
    "PD110": "touches files, which replay would do again",
    "PD111": "uses the network, which replay would do again",
    "PD112": "talks to a database, which replay would do again",
    "PD113": "starts or stops processes, which replay would do again",
    "PD114": "runs code in a thread or process that the log knows nothing of",
    "PD115": "drives an event loop, which is the engine's to do",
    "PD116": "reads from the keyboard, which replay can't repeat",
    "PD117": "is printed or logged again by every replay",
    "PD118": "ends the process and not the workflow",
    "PD203": "has tasks start in an order that replay can't repeat",
    "PD204": "differs between processes",
}
"""The problem of a call or a read in a workflow, by code."""


def external_calls(function: WorkflowFunction) -> Iterator[Violation]:
    """Calls and reads of the outside world, in the function and in the defaults of its parameters."""
    for call in chain(function.all(ast.Call), _calls_in_defaults(function)):
        if code := _of_call(call, function):
            yield Violation(code, call, f"`{expression_text(call.func)}()` {DOES[code]}")
    names: list[ast.Attribute | ast.Name] = [*function.all(ast.Attribute), *function.all(ast.Name)]
    for name in names:
        if isinstance(name.ctx, ast.Load) and (code := READS.get(function.full(name))):
            yield Violation(code, name, f"`{expression_text(name)}` {DOES[code]}")
    for raised in function.all(ast.Raise):
        error = raised.exc.func if isinstance(raised.exc, ast.Call) else raised.exc
        if error is not None and function.full(error) in ("builtins.SystemExit", "builtins.KeyboardInterrupt"):
            yield Violation("PD118", raised, f"`raise {expression_text(error)}` {DOES['PD118']}")


def _calls_in_defaults(function: WorkflowFunction) -> Iterator[ast.Call]:
    """Defaults are computed when the module is imported: in each process anew."""
    if isinstance(function.node, Definition):
        defaults = [one for one in (*function.node.args.defaults, *function.node.args.kw_defaults) if one is not None]
        yield from (node for node in function.within(defaults) if isinstance(node, ast.Call))


def _of_call(call: ast.Call, function: WorkflowFunction) -> str | None:
    name = function.full(call.func)
    if not name:
        return "PD104" if isinstance(call.func, ast.Attribute) and call.func.attr == "astimezone" and _given(call) == 0 else None
    decided = _depends(name, call)
    return (CALLS.get(name) or _of_family(name)) if decided is None else decided


def _of_family(name: str) -> str | None:
    module, _, last = name.rpartition(".")
    return FAMILIES.get(module) if "(" not in last and not last[:1].isupper() else None


def _given(call: ast.Call) -> int:
    return len(call.args) + len(call.keywords)


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    named = next((one.value for one in call.keywords if one.arg == name), None)
    return call.args[position] if len(call.args) > position else named


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _depends(name: str, call: ast.Call) -> str | None:
    """The code of a call about which its arguments decide, or empty text if they are right; None if it is no such call."""
    match name:
        case "time.localtime" | "time.ctime" | "time.mktime":
            return "PD104" if _given(call) else "PD101"
        case "time.gmtime" | "time.asctime":
            return "" if _given(call) else "PD101"
        case "time.strftime":
            return "" if _given(call) > 1 else "PD101"
        case "datetime.datetime.fromtimestamp":
            return "PD104" if _is_none(_argument(call, 1, "tz")) and _given(call) < 2 else ""
        case "random.Random" | "numpy.random.default_rng" | "numpy.random.RandomState" | "numpy.random.SeedSequence":
            return "" if _given(call) else "PD105"
        case "asyncio.wait_for":
            return "" if _is_none(_argument(call, 1, "timeout")) else "PD103"
        case "asyncio.timeout" | "asyncio.timeout_at":
            return "" if _is_none(_argument(call, 0, "delay")) else "PD103"
        case "asyncio.wait" | "asyncio.as_completed":
            return "" if _is_none(_argument(call, 9, "timeout")) else "PD103"
        case "asyncio.create_task" | "asyncio.Task":
            eager = _argument(call, 9, "eager_start")
            return "PD203" if isinstance(eager, ast.Constant) and eager.value is True else ""
        case _ if name.endswith(".astimezone"):
            return "" if _given(call) else "PD104"
        case "asyncio.sleep":
            return "" if isinstance(first := _argument(call, 0, "delay"), ast.Constant) and first.value == 0 else "PD102"
        case _:
            return None
