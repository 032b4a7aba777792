import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A whole HDFS for one test: HdfsServer DIRECTORY RPC_PORT WEB_PORT, until it is killed. */
public final class HdfsServer {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(arguments[0]).getAbsolutePath());
    settings.set("dfs.namenode.http-bind-host", "127.0.0.1");
    // Files of a few bytes, and listings in several pages.
    settings.setInt("dfs.ls.limit", 100);
    settings.setLong("dfs.namenode.fs-limits.min-block-size", 0);
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(settings)
            .nameNodePort(Integer.parseInt(arguments[1]))
            .nameNodeHttpPort(Integer.parseInt(arguments[2]))
            .numDataNodes(1)
            .build();
    cluster.waitActive();
    System.out.println("active");
    Thread.currentThread().join();
  }
}
